"""Candidates are counted in tiles: ranks are the same wherever the tiles are cut."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bilink.data.index import known_answers
from bilink.ensembles.mixture import MixtureScorer
from bilink.errors import TrainingError
from bilink.evaluation import ranks
from bilink.evaluation.ranks import TIES, rank_triples
from bilink.models.model import Model
from bilink.models.registry import FAMILIES
from bilink.models.scorer import SIDES
from bilink.paths.mining import mine
from bilink.paths.rules import MiningConfig
from bilink.paths.scorer import PathScorer, fixed_weights
from conftest import random_graph

BILINEAR = sorted(name for name, found in FAMILIES.items() if found.form.is_product)
KINDS = ("mixture", "platt", "paths", "mixture with paths")
GRAPHS = [random_graph(seed, n_entities=23, n_relations=2, size=160) for seed in range(4)]


@contextmanager
def tiles_of(size):
    """Tiles of so many candidates."""
    before, ranks._TILE = ranks._TILE, size
    try:
        yield
    finally:
        ranks._TILE = before


def numbers(random, shape, coarse):
    """Small integers, whose scores are exact and often equal, or rows of which some are equal."""
    if coarse:
        return random.integers(-1, 2, shape).astype(np.float32)
    kinds = random.normal(size=(-(-shape[0] // 2), *shape[1:]))
    return kinds[random.integers(0, len(kinds), shape[0])].astype(np.float32)


def model_of(name, graph, random, coarse, dim=6):
    empty = Model.empty(name, dim, len(graph.entities), len(graph.relations))
    rows = (numbers(random, array.shape, coarse) for array in (empty.entities, empty.relations))
    return Model(empty.family, dim, *rows)


def paths_of(graph):
    rules = mine(graph, MiningConfig(support=2, confidence=0.01, per_relation=60, overlap=0.2))
    return PathScorer(rules, graph, fixed_weights("noisy-or", len(graph.relations)))


def scorer_of(kind, graph, random, coarse):
    if kind in FAMILIES:
        return model_of(kind, graph, random, coarse).scorer
    if kind == "paths":
        return paths_of(graph)
    members = [model_of(name, graph, random, coarse).scorer for name in random.choice(BILINEAR, 2)]
    if kind == "mixture with paths":
        members.append(paths_of(graph))
    weights = {side: random.random((len(graph.relations), len(members))) for side in SIDES}
    offsets = random.normal(size=len(members)) if kind == "platt" else None
    return MixtureScorer(members, weights, offsets)


def ranked(scorer, graph, splits, threads=1):
    found = rank_triples(scorer, graph.test, known_answers(graph, splits), threads=threads)
    return {side: (r.above, r.level, r.options) for side, r in found.items()}, found


@pytest.fixture
def compiled(kind):
    """Before Hypothesis watches each line."""
    scorer = scorer_of(kind, GRAPHS[0], np.random.default_rng(0), coarse=False)
    ranked(scorer, GRAPHS[0], ())


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("kind", [*sorted(FAMILIES), *KINDS])
@settings(max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    tile=st.integers(1, 22),
    coarse=st.booleans(),
    splits=st.sampled_from([(), ("train",), ("train", "valid", "test")]),
    threads=st.integers(1, 3),
)
def test_ranks_are_the_same_in_tiles_of_any_size(kind, seed, tile, coarse, splits, threads):
    graph = GRAPHS[seed % len(GRAPHS)]
    scorer = scorer_of(kind, graph, np.random.default_rng(seed), coarse)
    with tiles_of(10**9):
        whole, kept = ranked(scorer, graph, splits)
    with tiles_of(tile):
        parts, found = ranked(scorer, graph, splits, threads)
    for side in SIDES:
        np.testing.assert_array_equal(parts[side], whole[side])
        for ties in TIES:
            np.testing.assert_array_equal(found[side].values(ties), kept[side].values(ties))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_entities_with_the_same_numbers_are_level_in_all_tiles(name, dtype):
    graph = random_graph(n_entities=1003, n_relations=3, size=900)
    random = np.random.default_rng(0)
    empty = Model.empty(name, 50, 1003, 3)
    kinds = random.normal(size=(2, empty.entities.shape[1]))
    entities = kinds[np.arange(1003) % 2].astype(dtype)
    relations = random.normal(size=empty.relations.shape).astype(dtype)
    model = Model(empty.family, 50, entities, relations)
    with tiles_of(97):
        _, found = ranked(model.scorer, graph, ())
    for side, answer in (("head", 0), ("tail", 2)):
        alike = np.where(graph.test[:, answer] % 2, 501, 502)
        np.testing.assert_array_equal(found[side].level, alike - 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e38])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_scores_that_are_not_finite_are_an_error_in_any_tile(name, bad):
    graph = GRAPHS[0]
    model = model_of(name, graph, np.random.default_rng(0), coarse=False)
    model.entities[20, 0] = bad
    with tiles_of(5), pytest.raises(TrainingError, match="not finite"):
        ranked(model.scorer, graph, ())


def test_little_memory_is_enough_for_many_entities():
    """What ranking takes does not grow with the number of entities."""
    graph = random_graph(n_entities=20_000, n_relations=2, size=300)
    model = model_of("distmult", graph, np.random.default_rng(0), coarse=False)
    known = known_answers(graph, ())
    wide = rank_triples(model.scorer, graph.test, known)
    small = rank_triples(model.scorer, graph.test, known, memory=50_000)  # a row takes 80,000
    for side in SIDES:
        np.testing.assert_array_equal(small[side].above, wide[side].above)
