"""The seam of the scorer: readouts of several forms and sparse queries rank like any other."""

import numpy as np
import pytest

import naive
from bilink._jit import kernel_function
from bilink.data.index import known_answers
from bilink.errors import DataError, TrainingError
from bilink.evaluation.ranks import rank_triples, top_candidates
from bilink.models.model import Model
from bilink.models.readout import Readout
from bilink.models.registry import FAMILIES
from bilink.models.scorer import SIDES, Scorer
from bilink.queries.pairs import PairSearch
from conftest import random_graph

WIDTH, FORMS = 4, 3


@kernel_function
def weighted_squares(query, entity):
    """Σ aᵢ xᵢ²; the constants aᵢ are those of the query."""
    total = query[0] * 0
    for i in range(FORMS):
        value = query[i * WIDTH] * entity[0]
        for k in range(1, WIDTH):
            value += query[i * WIDTH + k] * entity[k]
        total += query[FORMS * WIDTH + i] * value * value
    return total


class WeightedSquares(Readout):
    def products(self, queries, candidates):
        return [(queries[:, i * WIDTH : (i + 1) * WIDTH], candidates) for i in range(FORMS)]

    def read(self, values, queries):
        return np.einsum("kij,ik->ij", values**2, queries[:, FORMS * WIDTH :])

    def sizes(self, queries, norm):
        # Products of unit sizes are at most some tens, so that a square moves by a hundredfold.
        return 1e3 * np.linalg.norm(queries, axis=1) * norm


class ReadoutScorer(Scorer):
    """A toy: k queries per question, products with the same candidates, a sum of squares."""

    def __init__(self, n_entities, n_relations, seed=0, integers=False):
        random = np.random.default_rng(seed)

        def draw(*shape):
            drawn = random.integers(-2, 3, shape) if integers else random.normal(size=shape)
            return drawn.astype(np.float32)

        self.rows = draw(n_entities, WIDTH)
        self.maps = draw(2, n_relations, FORMS, WIDTH, WIDTH)
        super().__init__(self.rows, WeightedSquares("weighted_squares", weighted_squares))

    @property
    def query_width(self):
        return FORMS * (WIDTH + 1)

    def queries(self, side, given, relations):
        maps = self.maps[SIDES.index(side), relations]
        made = np.einsum("nkij,nj->nki", maps, self.rows[given]).reshape(len(given), -1)
        constants = np.tile(np.float32([-1, -1, 0.5]), (len(given), 1))
        return np.hstack([made, constants])

    def plain(self, side, given, relation):
        """The scores of all candidates, written out."""
        query = self.queries(side, np.array([given]), np.array([relation]))[0].astype(float)
        forms = [self.rows.astype(float) @ query[i * WIDTH : (i + 1) * WIDTH] for i in range(FORMS)]
        return -(forms[0] ** 2) - forms[1] ** 2 + 0.5 * forms[2] ** 2


class SparseScorer(Scorer):
    """A toy of rules: a question has few candidates with a score, all others have none."""

    def __init__(self, n_entities, n_relations, seed=0):
        # Candidates that nobody compares: scores are written, not multiplied.
        super().__init__(np.zeros((n_entities, 1), dtype=np.float32))
        random = np.random.default_rng(seed)
        size = (2, n_relations, n_entities, 3)
        self.ids = random.integers(0, n_entities, size)
        self.values = random.integers(1, 4, size).astype(np.float32)

    @property
    def is_product(self):
        return False

    def queries(self, side, given, relations):
        return [(self.ids[i], self.values[i]) for i in self._places(side, given, relations)]

    def _places(self, side, given, relations):
        return [(SIDES.index(side), r, e) for e, r in zip(given, relations, strict=True)]

    def query_scores(self, queries, out=None, *, repeatable=False):
        out = np.empty((len(queries), self.n_entities), self.dtype) if out is None else out
        out[:] = 0
        for row, (ids, values) in zip(out, queries, strict=True):
            row[ids] = values
        return out

    def tolerances(self, queries):
        return np.zeros(len(queries), dtype=self.dtype)

    def exact_rows(self, queries):
        return np.zeros((len(queries), 1), dtype=self.dtype), self.candidates

    def plain(self, side, given, relation):
        return self.scores(side, np.array([given]), np.array([relation]))[0].astype(float)


def toys():
    graph = random_graph(n_entities=40, n_relations=2, size=300)
    sizes = len(graph.entities), len(graph.relations)
    return graph, [
        ReadoutScorer(*sizes),
        ReadoutScorer(*sizes, integers=True),  # with many ties
        SparseScorer(*sizes),  # with more
    ]


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("ties", ["realistic", "optimistic", "pessimistic"])
def test_ranks_are_those_of_the_definition(which, ties):
    graph, scorers = toys()
    scorer = scorers[which]
    known = known_answers(graph, ("train", "valid", "test"))
    found = rank_triples(scorer, graph.test, known, threads=2)
    for side, given, answer in (("head", 2, 0), ("tail", 0, 2)):
        for triple, rank in zip(graph.test, found[side].values(ties), strict=True):
            scores = scorer.plain(side, triple[given], triple[1])
            others = known[side].of_query(int(triple[given]), int(triple[1]))
            wanted, _ = naive.rank(scores, triple[answer], others, ties)
            assert rank == wanted


@pytest.mark.parametrize("which", range(3))
def test_blocks_and_the_best_candidates_are_those_of_all_scores(which):
    graph, scorers = toys()
    scorer = scorers[which]
    given, relations = graph.test[:, 0].astype(int), graph.test[:, 1].astype(int)
    whole = scorer.scores("tail", given, relations)
    for part, scores in scorer.blocks("tail", given, relations, memory=3 * scorer.row_bytes):
        assert part.stop - part.start <= 3
        np.testing.assert_allclose(scores, whole[part], rtol=1e-5)
    ids, scores = top_candidates(scorer, "tail", 3, 1, 5, exclude=np.array([7]))
    row = scorer.plain("tail", 3, 1)
    row[7] = -np.inf
    np.testing.assert_allclose(scores, np.sort(row)[::-1][:5], rtol=1e-4)
    assert 7 not in ids


def test_a_readout_scores_triples_and_pairs_as_it_scores_candidates():
    graph, (scorer, *_) = toys()
    triples = graph.triples
    expected = [scorer.plain("tail", h, r)[t] for h, r, t in triples]
    np.testing.assert_allclose(scorer.score(triples), expected, rtol=1e-4, atol=1e-4)
    n = scorer.n_entities
    every = np.concatenate([scorer.plain("tail", h, 1) for h in range(n)])
    found = PairSearch(scorer).best(1, 5)
    best = np.argsort(-every, kind="stable")[:5]
    assert (found.heads * n + found.tails).tolist() == best.tolist()


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_scores_that_are_not_finite_are_an_error_everywhere(name):
    model = Model.empty(name, 4, 6, 2)
    for array in (model.entities, model.relations):
        array[:] = np.random.default_rng(0).normal(size=array.shape)
    model.entities[3] = np.nan
    asked = np.array([1]), np.array([0])
    known = {side: known_answers(random_graph(), ())[side] for side in SIDES}
    for call in (
        lambda: model.scorer.scores("tail", *asked),
        lambda: list(model.scorer.blocks("head", *asked)),
        lambda: top_candidates(model.scorer, "tail", 1, 0, 3, np.array([])),
        lambda: rank_triples(model.scorer, np.array([[0, 0, 1]]), known),
        lambda: PairSearch(model.scorer).best(0, 3),
    ):
        with pytest.raises(TrainingError, match="not finite"):
            call()


@pytest.mark.parametrize(("given", "relation"), [(6, 0), (-1, 0), (0, 2)])
def test_ids_out_of_range_are_refused(given, relation):
    model = Model.empty("distmult", 2, 6, 2)
    with pytest.raises(DataError, match="out of range"):
        model.scorer.scores("tail", np.array([given]), np.array([relation]))


def random_model(name, n_entities=1500, dim=12):  # more candidates than are compared at once
    model = Model.empty(name, dim, n_entities, 2)
    for array in (model.entities, model.relations):
        array[:] = np.random.default_rng(0).normal(size=array.shape)
    return model


@pytest.mark.parametrize("name", ["readout", *sorted(FAMILIES)])
def test_repeatable_scores_do_not_depend_on_what_else_is_asked(name):
    scorer = toys()[1][0] if name == "readout" else random_model(name).scorer
    given, relations = np.arange(31), np.arange(31) % 2
    whole = scorer.scores("head", given, relations, repeatable=True)
    np.testing.assert_allclose(whole, scorer.scores("head", given, relations), 1e-4, 1e-4)
    for part in (slice(0, 1), slice(3, 16), slice(7, 31), slice(30, 31)):
        alone = scorer.scores("head", given[part], relations[part], repeatable=True)
        assert alone.dtype == scorer.dtype
        # But for a sum that lies just between two numbers of single precision.
        assert np.count_nonzero(alone != whole[part]) <= 1
