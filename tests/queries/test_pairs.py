"""The best pairs of a relation are those of scoring all pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from bilink.ensembles.mixture import MixtureScorer
from bilink.errors import ConfigError, QueryStopped
from bilink.models.model import Model
from bilink.models.registry import FAMILIES
from bilink.models.scorer import SIDES
from bilink.queries import byte_products, pair_scans
from bilink.queries.bounds import Axes, least_sums, rounded
from bilink.queries.byte_products import STEP
from bilink.queries.pairs import PairSearch


def integer_model(name, dim, n, seed):
    """Small whole numbers, so that scores are exact and many are equal."""
    random = np.random.default_rng(seed)
    model = Model.empty(name, dim, n, 2)
    for array in (model.entities, model.relations):
        array[:] = random.integers(-2, 3, array.shape)
    return model


def normal_model(name, dim, n, seed):
    random = np.random.default_rng(seed)
    model = Model.empty(name, dim, n, 2)
    for array in (model.entities, model.relations):
        array[:] = random.normal(size=array.shape)
    return model


def as_keys(found, n):
    return (found.heads * n + found.tails).tolist()


SMALL_TILES = {"ROWS": 6, "COLUMNS": 7, "_SEEDS": 3}  # so that some pairs are left out
FIRST_LOOKS = {"_LADDER": (8,), "_FOLLOW": 0, "WIDEST": 16}  # at 8 coordinates, then at 16


@pytest.mark.parametrize("sizes", [SMALL_TILES, SMALL_TILES | FIRST_LOOKS])
@given(
    st.sampled_from(["rescal", "distmult", "complex", "transe", "transe-l1"]),
    st.integers(1, 20),
    st.integers(2, 20),
    st.integers(1, 40),
    st.integers(0, 999),
    st.booleans(),
)
def test_pairs_are_those_of_the_definition_ties_and_all(sizes, name, dim, n, k, seed, loops):
    model = integer_model(name, dim, n, seed)
    left_out = {(h % n, (h * seed) % n) for h in range(0, n, 2)}
    keys = np.array(sorted(h * n + t for h, t in left_out))
    e, r = model.entities.astype(float), model.relations[1].astype(float)
    wanted = naive.best_pairs(lambda h, t: naive.score(name, e[h], r, e[t]), n, k, left_out, loops)
    with pytest.MonkeyPatch.context() as patch:
        for constant, value in sizes.items():
            patch.setattr(pair_scans, constant, value)
        found = PairSearch(model.scorer, threads=2).best(1, k, leave_out=keys, loops=loops)
    assert as_keys(found, n) == [h * n + t for _, h, t in wanted]
    assert found.scores.tolist() == [score for score, _, _ in wanted]


@pytest.mark.parametrize("name", sorted(FAMILIES))
@pytest.mark.parametrize("way", ["bytes", "float32", "all pairs"])
def test_pruned_tiles_hold_no_better_pair(name, way, monkeypatch):
    """Several tiles, with and without an instruction for bytes, and the path that scores all."""
    memory = 50_000 if way == "all pairs" else 10**9
    if way == "float32":
        monkeypatch.setattr(byte_products, "MULTIPLIES_BYTES", False)
    monkeypatch.setattr(pair_scans, "ROWS", 16)
    monkeypatch.setattr(pair_scans, "COLUMNS", 32)
    monkeypatch.setattr(pair_scans, "_SEEDS", 4)
    n, k = 150, 25
    scorer = normal_model(name, 20, n, 3).scorer
    queries = scorer.fact_queries(np.arange(n), np.ones(n, dtype=int))
    scores = np.empty((n, n), dtype=scorer.dtype)
    scorer.query_scores(queries, scores)
    best = np.sort(np.argsort(-scores.ravel(), kind="stable")[:k])
    found = PairSearch(scorer).best(1, k, seeds=np.array([5, 9]), memory=memory)
    assert sorted(as_keys(found, n)) == best.tolist()
    assert (np.diff(found.scores) <= 0).all()
    np.testing.assert_allclose(found.scores, scores[found.heads, found.tails], rtol=1e-4, atol=1e-4)


def test_most_tiles_are_never_multiplied_where_norms_differ(monkeypatch):
    monkeypatch.setattr(pair_scans, "COLUMNS", 64)
    model = normal_model("distmult", 16, 2000, 0)
    model.entities[50:] *= 0.05
    seen = []
    reaching = pair_scans.reaching

    def count(rows, columns, *rest):
        seen.append(len(rows.bytes) * len(columns.bytes))
        return reaching(rows, columns, *rest)

    monkeypatch.setattr(pair_scans, "reaching", count)
    PairSearch(model.scorer, threads=1).best(0, 10)
    assert sum(seen) < 2000**2 / 4


@pytest.mark.parametrize("size", [1e-70, 1, 1e70])
@given(st.sampled_from(["rescal", "complex", "transe"]), st.integers(0, 99), st.integers(1, 7))
def test_bounds_hold_at_every_level(size, name, seed, together):
    """No pair has a chance with fewer bytes than are asked for, and few have with as many."""
    given = normal_model(name, 13, 30, seed)
    entities, relations = (x.astype(float) for x in (given.entities, given.relations))
    model = Model(given.family, 13, entities * size, relations)
    scorer, everyone = model.scorer, np.arange(30)
    queries = scorer.fact_queries(everyone, np.zeros(30, dtype=int))
    exact = queries.astype(float) @ scorer.candidates.T.astype(float)
    axes = Axes.of(queries, scorer.candidates)
    rows, q = rounded(queries, everyone, axes.order, axes.queries)
    columns, c = rounded(scorer.candidates, everyone, axes.order, axes.candidates, together)
    of_column = everyone // together
    for level in range(q.rests.shape[1]):
        part = slice(level * STEP)
        sums = rows[:, part].astype(int) @ columns[:, part].T.astype(int)
        for bar in np.quantile(exact, [0, 0.5, 0.9, 1]):
            limits = least_sums(bar, q, c, level)[:, of_column]
            assert (sums >= limits)[exact >= bar].all()
    assert ((sums >= limits) & (exact < bar)).mean() < 0.1  # the last bar is the highest score


def test_heads_and_tails_can_be_chosen_and_a_floor_set():
    n = 40
    scorer = normal_model("complex", 6, n, 1).scorer
    heads, tails = np.array([3, 8, 30]), np.array([1, 2, 3])
    found = PairSearch(scorer).best(0, 100, heads=heads, tails=tails, loops=False)
    assert sorted(as_keys(found, n)) == sorted(h * n + t for h in heads for t in tails if h != t)
    again = PairSearch(scorer).best(0, 100, heads=heads, tails=tails, floor=found.scores[3])
    assert len(again) in (4, 5)  # 3 → 3 may be among them
    assert len(PairSearch(scorer).best(0, 5, heads=heads[:0])) == 0


def test_an_ensemble_scores_pairs_as_it_scores_facts():
    n = 30
    members = [normal_model(name, 5, n, i).scorer for i, name in enumerate(("rescal", "transe"))]
    random = np.random.default_rng(0)
    weights = {side: random.random((2, 2)) for side in SIDES}
    same = dict.fromkeys(SIDES, np.tile([0.5, 0.7], (2, 1)))
    for scorer in (
        MixtureScorer(members, weights),
        MixtureScorer(members, same, np.array([0.1, 0.2])),
    ):
        triples = np.array([(h, 1, t) for h in range(n) for t in range(n)])
        scores = scorer.score(triples)
        best = np.argsort(-scores, kind="stable")[:12]
        found = PairSearch(scorer).best(1, 12)
        assert as_keys(found, n) == best.tolist()
        np.testing.assert_allclose(found.scores, scores[best], rtol=1e-5)


@pytest.mark.parametrize("size", [1e-60, 1e60])
def test_very_large_and_very_small_numbers_are_no_matter(size):
    entities = np.random.default_rng(0).normal(size=(8, 3)) * size
    model = Model(FAMILIES["distmult"], 3, entities, np.ones((1, 3)))
    found = PairSearch(model.scorer).best(0, 64)
    scores = model.entities @ model.entities.T
    assert as_keys(found, 8)[:1] == [int(scores.argmax())]
    assert len(found) == 64


def test_a_search_reports_progress_and_can_be_stopped():
    scorer = normal_model("distmult", 4, 700, 0).scorer
    done = []
    PairSearch(scorer).best(0, 5, progress=done.append)
    assert sum(done) == 700
    with pytest.raises(QueryStopped):
        PairSearch(scorer).best(0, 5, stop=lambda: True)
    with pytest.raises(ConfigError, match="memory budget"):
        PairSearch(scorer).best(0, 5, memory=1000)
