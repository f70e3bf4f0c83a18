"""What speaks for a triple: gradients, members, analogies, paths."""

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import spearmanr

import bilink
from bilink.errors import ConfigError, DataError
from bilink.models.model import Model
from bilink.models.registry import FAMILIES, family
from bilink.queries.explain import _gradients, _paths, influences
from bilink.training.fold_in import fold_in
from conftest import random_graph

every_model = pytest.mark.parametrize("name", sorted(FAMILIES))


def random_model(name, dim=3, n_entities=12, n_relations=3):
    random = np.random.default_rng(0)
    shapes = zip((n_entities, n_relations), family(name).widths(dim), strict=True)
    return Model(family(name), dim, *(random.normal(size=shape) for shape in shapes))


@every_model
def test_gradients_are_those_of_finite_differences(name):
    model = random_model(name)
    triples = np.array([[0, 1, 2], [3, 0, 1]])
    found = _gradients(model, triples)
    for i, triple in enumerate(triples):
        places = zip((0, 1, 2), (model.entities, model.relations, model.entities), strict=True)
        for part, array in places:
            row = triple[part]
            for k in range(array.shape[1]):
                value = array[row, k]
                ends = []
                for step in (1e-6, -1e-6):
                    array[row, k] = value + step
                    ends.append(Model(model.family, 3, model.entities, model.relations))
                    ends[-1] = ends[-1].score(triple[None])[0]
                array[row, k] = value
                assert found[part][i, k] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-4)


@every_model
def test_influence_is_the_sum_of_cosines_over_shared_rows(name):
    model, train = random_model(name), random_graph().train.astype(np.int64)
    answer = np.array([0, 1, 2])

    def gradient(triple, kind, row):
        parts = _gradients(model, triple[None])
        places = [(0, "entity"), (1, "relation"), (2, "entity")]
        rows = [parts[p][0] for p, k in places if (k, triple[p]) == (kind, row)]
        return np.sum(rows, axis=0) if rows else None

    for fact, found in zip(train, influences(model, answer, train), strict=True):
        expected = 0
        for kind, row, part in (("entity", 0, 0), ("entity", 2, 2), ("relation", 1, 1)):
            one, other = _gradients(model, answer[None])[part][0], gradient(fact, kind, row)
            if other is not None:
                expected += one @ other / (np.linalg.norm(one) * np.linalg.norm(other))
        assert found == pytest.approx(expected)


@pytest.fixture(scope="module")
def atlas():
    return bilink.train("atlas", "distmult", 24, epochs=30, threads=1, validation_triples=0)


def test_influence_goes_with_leaving_facts_out(atlas):
    """A head is placed anew with all its facts but one, and the score of an answer looked at."""
    graph, model = atlas.graph, atlas.model
    borders, new = graph.relations.find("borders"), len(graph.entities)
    answers = graph.test[graph.test[:, 1] == borders][:8]
    found, frozen = [], atlas.frozen["DistMult"]
    for answer in answers:
        head = answer[0]
        own = graph.train[(graph.train[:, [0, 2]] == head).sum(axis=1) == 1][:12]
        if len(own) < 5:
            continue
        twin = np.where(own == [head, -1, head], [new, 0, new], own)
        sets = [twin, *(np.delete(twin, i, axis=0) for i in range(len(twin)))]
        asked = np.array([[new, borders, answer[2]]])
        rows = [fold_in(frozen, facts, 1).score(asked) for facts in sets]
        drops = rows[0] - np.concatenate(rows[1:])
        found.append(spearmanr(influences(model, answer, own), drops)[0])
    assert len(found) > 4
    assert np.mean(found) > 0.2


def test_an_explanation_reads_as_a_small_table(atlas):
    found = atlas.explain("Austria", "borders", "Germany", k=3)
    text = repr(found)
    assert text.startswith("Austria · borders · Germany: in ")
    assert "approximate" in text
    assert len(found.support) == len(found.analogies) == 3
    assert found.support[0].value >= found.support[1].value > 0
    assert ("Austria", "borders", "Germany") not in [s.fact for s in found.support]
    assert all(a.fact[1] == "borders" for a in found.analogies)
    assert found.ranks["tail"] >= 1
    json.dumps(found.to_dict())
    with pytest.raises(DataError, match="did you mean 'Austria'"):
        atlas.explain("Austri", "borders", "Germany")
    with pytest.raises(ConfigError, match="k must be"):
        atlas.explain("Austria", "borders", "Germany", k=0)


@pytest.mark.parametrize("method", ["stack", "platt"])
def test_members_add_up_to_the_score_above_the_average_candidate(method):
    graph = random_graph(size=150)
    options = {"epochs": 3, "threads": 1, "preset": "margin"}
    runs = [bilink.train(graph, m, 4, **options) for m in ("transe", "complex")]
    both = bilink.combine(runs, method=method)
    found = both.explain("e0", "r1", "e2")
    assert {member.name for member in found.members} == set(both.members)
    for side, given, answer in (("head", 2, 0), ("tail", 0, 2)):
        ids = np.array([0, 1, 2])
        queries = both.scorer.queries(side, ids[[given]], ids[[1]])
        scores = np.empty((1, 12), dtype=both.scorer.dtype)
        both.scorer.query_scores(queries, scores)
        total = sum(getattr(member, side) for member in found.members)
        assert total == pytest.approx(scores[0, ids[answer]] - scores.mean(), abs=1e-4)
    assert sum(abs(member.share) for member in found.members) == pytest.approx(1)


def test_paths_join_head_and_tail_shortest_first():
    train = np.array([[0, 0, 1], [2, 0, 1], [0, 1, 3], [3, 0, 2], [2, 1, 0], [1, 0, 5], [4, 0, 5]])
    found = [[tuple(fact) for fact in path] for path in _paths(np.array([0, 0, 2]), train)]
    assert found[0] == [(2, 1, 0)]
    assert sorted(found[1:]) == [[(0, 0, 1), (2, 0, 1)], [(0, 1, 3), (3, 0, 2)]]
    far = _paths(np.array([0, 0, 4]), train)
    assert [tuple(map(tuple, path)) for path in far] == [((0, 0, 1), (1, 0, 5), (4, 0, 5))]
    assert _paths(np.array([0, 0, 9]), train) == []


def test_the_command_line_explains(tmp_path):
    bilink.train(random_graph(size=150), "hole", 4, epochs=2, threads=1, out=tmp_path / "run")
    ask = ["explain", tmp_path / "run", "--head", "e1", "--relation", "r0", "--tail", "e2"]
    command = [sys.executable, "-m", "bilink", *map(str, ask)]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    keys = {"head", "relation", "tail", "score", "ranks", "support", "analogies", "paths", "note"}
    assert keys <= set(json.loads(done.stdout))
    done = subprocess.run(command, capture_output=True, text=True)
    assert "e1 · r0 · e2" in done.stdout
