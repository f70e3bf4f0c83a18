import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from bilink.data.index import known_answers
from bilink.errors import ConfigError, DataError, TrainingError
from bilink.evaluation.ranks import rank_triples, top_candidates
from bilink.models.model import Model
from bilink.models.registry import FAMILIES
from conftest import random_graph

SIDES = ("head", "tail")
seeds = st.integers(0, 2**32 - 1)


def coarse_model(name, graph, seed):
    """Parameters of few distinct small integers, so that scores are exact and often equal."""
    random = np.random.default_rng(seed)
    model = Model.empty(name, 2, len(graph.entities), len(graph.relations))
    for array in (model.entities, model.relations):
        array[:] = random.integers(-1, 2, array.shape)
    return model


# Turns, roots and exponentials are not exact, so that scores which should be equal are not.
INEXACT = {"rotate", "transh", "transg", "ntn"}


@pytest.mark.parametrize("ties", ["optimistic", "realistic", "pessimistic"])
@pytest.mark.parametrize("name", sorted(FAMILIES))
@given(seed=seeds)
def test_ranks_agree_with_the_naive_reference(name, ties, seed):
    graph = random_graph(seed % 1000, n_entities=9, n_relations=2, size=50)
    model = coarse_model(name, graph, seed)
    if name in INEXACT:  # then without ties
        random = np.random.default_rng(seed)
        model.entities[:] = random.normal(size=model.entities.shape)
    splits = [(), ("train",), ("train", "valid", "test")][seed % 3]
    ranks = rank_triples(model.scorer, graph.test, known_answers(graph, splits), threads=2)
    known = [tuple(t) for split in splits for t in graph.split(split).tolist()]
    for side, answer, given_column in (("head", 0, 2), ("tail", 2, 0)):
        for i, triple in enumerate(graph.test.tolist()):
            others = [
                tuple(e if c == answer else triple[c] for c in range(3))
                for e in range(len(graph.entities))
            ]
            scores = model.score(np.array(others)).astype(np.float64)
            others = naive.answers(known, side, triple[given_column], triple[1])
            expected = naive.rank(scores, triple[answer], others, ties)
            found = ranks[side]
            assert (found.values(ties)[i], found.options[i]) == expected


def test_a_constant_scorer_earns_the_middle_rank(graph):
    model = Model.empty("distmult", 4, len(graph.entities), len(graph.relations))
    ranks = rank_triples(model.scorer, graph.test, known_answers(graph, ()))
    for side in SIDES:
        assert set(ranks[side].values()) == {(len(graph.entities) + 1) / 2}
        assert set(ranks[side].values("optimistic")) == {1}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_entities_with_the_same_numbers_are_level_wherever_they_stand(name, dtype):
    """BLAS rounds a sum differently in different columns of one row."""
    graph = random_graph(n_entities=1003, n_relations=3, size=900)
    random = np.random.default_rng(0)
    empty = Model.empty(name, 50, 1003, 3)
    kinds = random.normal(size=(2, empty.entities.shape[1]))
    entities = kinds[np.arange(1003) % 2].astype(dtype)
    relations = random.normal(size=empty.relations.shape).astype(dtype)
    model = Model(empty.family, 50, entities, relations)
    for side, ranks in rank_triples(model.scorer, graph.train, known_answers(graph, ())).items():
        answers = graph.train[:, 0 if side == "head" else 2]
        twins = np.where(answers % 2, 501, 502)
        np.testing.assert_array_equal(ranks.level, twins - 1)
        assert set(ranks.above) <= {0, 501, 502}


def test_a_translation_of_all_entities_does_not_change_transe():
    graph = random_graph(n_entities=200, n_relations=2, size=900)
    random = np.random.default_rng(0)
    model = Model.empty("transe", 30, 200, 2)
    model.entities[:] = np.round(random.normal(size=model.entities.shape), 2)
    here = rank_triples(model.scorer, graph.test, known_answers(graph, ()))
    there = Model(model.family, 30, model.entities + 64, model.relations)
    moved = rank_triples(there.scorer, graph.test, known_answers(graph, ()))
    for side in SIDES:
        np.testing.assert_allclose(here[side].values(), moved[side].values(), atol=2)


def test_concurrent_evaluations_leave_the_threads_of_blas_as_they_were(graph):
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_info

    def blas():
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    before, model = blas(), coarse_model("rescal", graph, 0)
    known = known_answers(graph, ())
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(rank_triples, model.scorer, graph.test, known) for _ in range(30)]
        assert all(job.result() for job in jobs)
    assert blas() == before


@pytest.mark.parametrize("triple", [(99, 0, 1), (0, 99, 1), (0, 0, -1)])
def test_ids_out_of_range_are_refused(graph, triple):
    model = coarse_model("rescal", graph, 0)
    with pytest.raises(DataError, match="out of range"):
        model.score(np.array([triple]))
    with pytest.raises(DataError, match="out of range"):
        model.scorer.queries("tail", np.array([triple[0] - 100]), np.array([triple[1]]))


def test_other_known_answers_do_not_count():
    graph = random_graph(n_entities=4, n_relations=1, size=200)  # all triples are known
    model = coarse_model("rescal", graph, 0)
    ranks = rank_triples(model.scorer, graph.test, known_answers(graph, ("train", "valid", "test")))
    assert all((ranks[side].values() == 1).all() for side in SIDES)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e38])
def test_scores_that_are_not_finite_are_an_error_and_never_a_good_rank(graph, bad):
    model = coarse_model("complex", graph, 0)
    model.entities[3, 0] = bad
    with pytest.raises(TrainingError, match="not finite"):
        rank_triples(model.scorer, graph.test, known_answers(graph, ()))


def ranked(model, graph, memory, threads=1):
    """The candidates above each answer, and the numbers of queries that were done at once."""
    done, known = [], known_answers(graph, ("train",))
    ranks = rank_triples(
        model.scorer, graph.test, known, memory=memory, threads=threads, progress=done.append
    )
    return [ranks[side].above for side in SIDES], done


@pytest.fixture
def normal_model(graph):
    model = coarse_model("rescal", graph, 0)
    model.entities[:] = np.random.default_rng(0).normal(size=model.entities.shape)
    return model


@pytest.fixture
def least(normal_model, graph):
    """The smallest budget that is accepted."""
    low, high = 0, 10**6  # refused, accepted
    while high - low > 1:
        middle = (low + high) // 2
        try:
            ranked(normal_model, graph, middle)
            high = middle
        except ConfigError:
            low = middle
    return high


def test_blocks_and_threads_do_not_change_ranks(normal_model, graph, least):
    wanted, at_once = ranked(normal_model, graph, 10**8)
    assert len(at_once) == 2  # all heads, all tails
    sizes = set()
    for spare in (0, 200, 500, 1000):
        for threads in (1, 3):
            found, done = ranked(normal_model, graph, least + spare, threads)
            np.testing.assert_array_equal(found, wanted)
            assert sum(done) == sum(at_once)
            sizes.add(len(done))
    assert max(sizes) > len(graph.test)  # one query after the other
    assert len(sizes) > 2


def test_a_budget_below_one_query_is_refused_with_the_size_it_needs(normal_model, graph, least):
    for memory in (1, least - 1):
        with pytest.raises(ConfigError, match=r"too small by 0\.\d MB") as refused:
            ranked(normal_model, graph, memory)
        missing = re.search(r"by (\S+) MB", str(refused.value))[1]
        ranked(normal_model, graph, memory + int(1e6 * float(missing)))


def test_unknown_tie_rules_are_refused_and_synonyms_understood(graph):
    model = coarse_model("rescal", graph, 0)
    ranks = rank_triples(model.scorer, graph.test, known_answers(graph, ()))["head"]
    np.testing.assert_array_equal(ranks.values("worst"), ranks.values("pessimistic"))
    with pytest.raises(ConfigError, match="tie rule 'random'"):
        ranks.values("random")


@given(seed=seeds, k=st.integers(1, 15))
def test_top_candidates_are_the_best_of_a_full_sort(seed, k):
    graph = random_graph(seed % 1000)
    model = coarse_model("transe", graph, seed)
    exclude = np.arange(seed % 4)
    ids, scores = top_candidates(model.scorer, "tail", 0, 1, k, exclude)
    everything = model.score(np.array([(0, 1, t) for t in range(len(graph.entities))]))
    order = [e for e in np.lexsort((np.arange(len(everything)), -everything)) if e not in exclude]
    assert ids.tolist() == order[:k]
    np.testing.assert_allclose(scores, everything[order[:k]])
