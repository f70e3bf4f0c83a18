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
from bilink.queries import pairs
from bilink.queries.pair_kernels import STEP
from bilink.queries.pairs import PairSearch, Rows, balance

LARGE = 2500  # entities: several tiles on both sides, the last of them not full
SCARCE = 10**6  # bytes: too few for bounds, so that all pairs are scored


def integer_model(name, dim, n, seed):
    """Small whole numbers, so that scores are exact and many are equal."""
    random = np.random.default_rng(seed)
    model = Model.empty(name, dim, n, 2)
    for array in (model.entities, model.relations):
        array[:] = random.integers(-2, 3, array.shape)
    return model


def normal_model(name, dim, n, seed, dtype=np.float32, spread=0.0):
    """Normal numbers; with ``spread``, entities and coordinates have different sizes."""
    random = np.random.default_rng(seed)
    empty = Model.empty(name, dim, n, 2)
    entities, relations = (random.normal(size=x.shape) for x in (empty.entities, empty.relations))
    entities *= np.exp(spread * random.normal(size=(n, 1)))
    entities *= np.exp(spread * random.normal(size=entities.shape[1]))
    return Model(FAMILIES[name], dim, entities.astype(dtype), relations.astype(dtype))


def all_scores(scorer, relation):
    """The score of every pair, in double precision where it is a product; else repeatable."""
    everyone = np.arange(scorer.n_entities)
    queries = scorer.fact_queries(everyone, np.full_like(everyone, relation))
    if scorer.is_product:
        return queries.astype(float) @ scorer.candidates.T.astype(float)
    return scorer.query_scores(queries, repeatable=True).astype(float)


def best_keys(scores, k):
    """head · n + tail of the k highest scores; equal scores by ascending head, then tail."""
    flat = scores.ravel()
    high = np.flatnonzero(flat >= np.partition(flat, -k)[-k])
    return high[np.argsort(-flat[high], kind="stable")][:k].tolist()


def as_keys(found, n):
    return (found.heads * n + found.tails).tolist()


@given(
    st.sampled_from(["rescal", "distmult", "complex", "transe", "transe-l1"]),
    st.integers(1, 20),
    st.integers(2, 20),
    st.integers(1, 40),
    st.integers(0, 999),
    st.booleans(),
)
def test_pairs_are_those_of_the_definition_ties_and_all(name, dim, n, k, seed, loops):
    model = integer_model(name, dim, n, seed)
    left_out = {(h % n, (h * seed) % n) for h in range(0, n, 2)}
    keys = np.array(sorted(h * n + t for h, t in left_out))
    e, r = model.entities.astype(float), model.relations[1].astype(float)
    wanted = naive.best_pairs(lambda h, t: naive.score(name, e[h], r, e[t]), n, k, left_out, loops)
    found = PairSearch(model.scorer, threads=2).best(1, k, leave_out=keys, loops=loops)
    assert as_keys(found, n) == [h * n + t for _, h, t in wanted]
    assert found.scores.tolist() == [score for score, _, _ in wanted]


@pytest.mark.parametrize("memory", [10**9, SCARCE])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_pairs_of_a_large_graph_are_those_of_scoring_all(name, memory):
    scorer = normal_model(name, 20, LARGE, 3, spread=0.5).scorer
    scores = all_scores(scorer, 1)
    np.fill_diagonal(scores, -np.inf)
    facts = np.sort(best_keys(scores, 50))
    scores.ravel()[facts] = -np.inf
    wanted = best_keys(scores, 300)
    search = PairSearch(scorer, threads=2)
    for seeds in (None, facts // LARGE):
        found = search.best(1, 300, leave_out=facts, loops=False, seeds=seeds, memory=memory)
        assert as_keys(found, LARGE) == wanted
        np.testing.assert_allclose(found.scores, scores.ravel()[wanted], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("memory", [10**9, SCARCE])
@pytest.mark.parametrize("name", ["distmult", "complex", "transe"])
def test_equal_scores_of_a_large_graph_stand_by_head_then_tail(name, memory):
    scorer = integer_model(name, 3, LARGE, 5).scorer
    scores = all_scores(scorer, 1)
    wanted = best_keys(scores, 1000)
    assert (scores >= scores.ravel()[wanted[-1]]).sum() > 1000  # some are as good as the last one
    found = PairSearch(scorer, threads=2).best(1, 1000, memory=memory)
    assert as_keys(found, LARGE) == wanted


@pytest.mark.parametrize("spread", [0.1, 0.5, 1.5])  # of many coordinates few or most are needed
@pytest.mark.parametrize("name", ["rescal", "complex", "transe"])
def test_pairs_of_wide_models_are_those_of_scoring_all(name, spread):
    scorer = normal_model(name, 90, LARGE, 1, spread=spread).scorer
    found = PairSearch(scorer, threads=2).best(0, 100)
    assert as_keys(found, LARGE) == best_keys(all_scores(scorer, 0), 100)


@pytest.mark.parametrize("size", [1e-60, 1, 1e60])
def test_scores_that_single_precision_cannot_tell_apart_are(size):
    """Copies of a few entities, changed so little that only double precision tells."""
    random = np.random.default_rng(2)
    entities = size * random.normal(size=(5, 30))[random.integers(5, size=LARGE)]
    entities *= 1 + 1e-11 * random.normal(size=entities.shape)
    scorer = Model(FAMILIES["distmult"], 30, entities, np.ones((1, 30))).scorer
    scores = all_scores(scorer, 0)
    found = PairSearch(scorer, threads=2).best(0, 200)
    assert len(found) == 200
    np.testing.assert_allclose(found.scores, scores[found.heads, found.tails], rtol=1e-14)
    lowest = scores.ravel()[best_keys(scores, 200)[-1]]
    assert (found.scores >= lowest * (1 - 1e-14)).all()


@pytest.mark.parametrize("size", [1e-70, 1, 1e70])
@given(st.sampled_from(["rescal", "complex", "transe"]), st.integers(1, 40), st.integers(0, 99))
def test_products_of_few_coordinates_bound_scores_at_every_level(size, name, dim, seed):
    given = normal_model(name, dim, 30, seed, dtype=np.float64, spread=0.5)
    scorer = Model(given.family, dim, given.entities * size, given.relations).scorer
    everyone = np.arange(30)
    queries = scorer.fact_queries(everyone, np.zeros(30, dtype=int))
    scores = all_scores(scorer, 0)
    axes, other_axes, unit = balance(queries, scorer.candidates)
    rows = Rows.of(queries, everyone, axes)
    columns = Rows.of(scorer.candidates, everyone, other_axes)
    tolerances = rows.tolerances(columns)[:, None]
    for level in range(rows.rests.shape[1]):
        bounds = unit * (rows.first(level) @ columns.first(level).T + tolerances)
        assert (bounds >= scores).all()
    assert level * STEP >= scorer.width  # where the bound is the score, but for rounding
    assert (bounds - scores <= 3 * unit * tolerances).all()


def test_most_tiles_are_never_multiplied_where_norms_differ(monkeypatch):
    n = 2 * LARGE
    model = normal_model("distmult", 16, n, 0)
    model.entities[50:] *= 0.05
    seen = []
    keep_best = pairs.keep_best

    def count(scores, *rest):
        seen.append(scores.size)
        keep_best(scores, *rest)

    monkeypatch.setattr(pairs, "keep_best", count)
    PairSearch(model.scorer, threads=1).best(0, 10)
    assert sum(seen) < n**2 / 4


@pytest.mark.parametrize("memory", [10**9, 50_000])
def test_heads_and_tails_can_be_chosen_and_a_floor_set(memory):
    n = 40
    scorer = normal_model("complex", 6, n, 1).scorer
    heads, tails = np.array([3, 8, 30]), np.array([1, 2, 3])
    search = PairSearch(scorer)
    found = search.best(0, 100, heads=heads, tails=tails, loops=False, memory=memory)
    assert sorted(as_keys(found, n)) == sorted(h * n + t for h in heads for t in tails if h != t)
    floor = found.scores[3]
    again = search.best(0, 100, heads=heads, tails=tails, floor=floor, memory=memory)
    assert len(again) in (4, 5)  # 3 → 3 may be among them
    assert len(search.best(0, 5, heads=heads[:0], memory=memory)) == 0


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
