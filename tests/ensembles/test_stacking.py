"""The fitted weights against a general optimiser and against what one would expect."""

import numpy as np
import pytest
from scipy.optimize import minimize

from bilink.data.index import KnownAnswers
from bilink.ensembles.factors import fit_ranking_weights, reciprocal_ranks
from bilink.ensembles.fitting import EnsembleConfig, ask_members, fit_ensemble
from bilink.evaluation.regression import Comparisons, fit_weights
from bilink.models.model import Model
from conftest import random_graph


def comparisons(n=60, wrong=6, members=3, groups=2, seed=0):
    random = np.random.default_rng(seed)
    gaps = random.normal(-0.5, 1, (n, wrong, members)).astype(np.float32)
    log_counts = random.normal(size=wrong).astype(np.float32)
    return Comparisons(random.integers(0, groups, n), gaps, log_counts)


def plain_loss(asked, rows, weights, prior, shrinkage):
    """Minus the log-likelihood of the answers, plus the penalty; written out."""
    total = 0.0
    for i in rows:
        logits = asked.gaps[i].astype(float) @ weights + asked.log_counts
        total += np.log(1 + np.exp(logits).sum())
    return total + shrinkage / 2 * ((weights - prior) ** 2).sum()


@pytest.mark.parametrize("non_negative", [True, False])
def test_weights_are_where_a_general_optimiser_finds_them(non_negative):
    asked = comparisons()
    scales = asked.gaps.std(axis=(0, 1))
    unit = Comparisons(asked.relations, asked.gaps / scales, asked.log_counts)
    found = fit_weights(asked, 3, shrinkage=0.7, non_negative=non_negative)
    bounds = [(0 if non_negative else None, None)] * 3
    everything = range(len(asked.gaps))
    common = minimize(
        lambda w: plain_loss(unit, everything, w, 0, 1e-3), np.ones(3), bounds=bounds
    ).x
    np.testing.assert_allclose(found.common, common / scales, atol=2e-3)
    for group in range(2):
        rows = np.flatnonzero(asked.relations == group)
        best = minimize(
            lambda w, rows=rows: plain_loss(unit, rows, w, common, 0.7), common, bounds=bounds
        ).x
        np.testing.assert_allclose(found.weights[group], best / scales, atol=2e-3)
    np.testing.assert_allclose(found.weights[2], found.common)  # a relation nobody asked about


def test_more_shrinkage_means_closer_to_the_common_weights():
    asked = comparisons(groups=4)
    far = [
        np.abs(f.weights - f.common).max()
        for f in (fit_weights(asked, 4, shrinkage=s) for s in (0.1, 10.0, 1000.0))
    ]
    assert far[0] > far[1] > far[2]


def test_cross_validation_shrinks_noise_and_lets_real_differences_be():
    random = np.random.default_rng(0)
    noise = comparisons(n=200, groups=40, members=2)
    assert fit_weights(noise, 40).shrinkage >= 10
    gaps = random.normal(0, 1.0, (400, 5, 2)).astype(np.float32)
    relations = random.integers(0, 2, 400)
    gaps[np.arange(400), :, relations] -= 1.0  # member r knows relation r
    fitted = fit_weights(Comparisons(relations, gaps, np.zeros(5, np.float32)), 2)
    assert fitted.weights[0, 0] > 2 * fitted.weights[0, 1]
    assert fitted.weights[1, 1] > 2 * fitted.weights[1, 0]


def test_hard_negatives_are_the_best_of_each_member_and_no_known_answers():
    models = []
    for seed in (1, 2):
        empty = Model.empty("distmult", 3, 9, 2)
        for array in (empty.entities, empty.relations):
            array[:] = np.random.default_rng(seed).normal(size=array.shape)
        models.append(empty)
    triples = np.array([(0, 0, 1), (0, 0, 2), (3, 1, 4), (5, 1, 5)])
    known = {side: KnownAnswers.of(triples, side, 9, 2) for side in ("head", "tail")}
    asked = ask_members(
        [m.scorer for m in models], triples, known, "tail", random_negatives=4, hard_negatives=2
    )
    assert asked.gaps.shape == (4, 4 + 2 * 2, 2)
    for i, (h, r, t) in enumerate(triples):
        scores = np.array([[m.score([(h, r, e)])[0] for e in range(9)] for m in models])
        barred = set(triples[(triples[:, 0] == h) & (triples[:, 1] == r), 2].tolist())
        gaps = (scores - scores[:, [t]]).T
        allowed = [gaps[e] for e in range(9) if e not in barred]
        for negative in asked.gaps[i]:
            assert any(np.allclose(negative, other, atol=1e-5) for other in allowed)
        for member in range(2):
            free = [e for e in range(9) if e not in barred]
            best = sorted(free, key=lambda e, m=member: -scores[m, e])[:2]
            np.testing.assert_allclose(
                asked.gaps[i, 4 + 2 * member : 6 + 2 * member], gaps[best], atol=1e-5
            )
            barred |= set(best)
    assert asked.log_counts[0] == pytest.approx(np.log(9 / 4))


def test_where_every_entity_is_an_answer_the_negatives_are_harmless():
    empty = Model.empty("distmult", 2, 2, 1)
    empty.entities[:] = [[1, 2], [3, 4]]
    triples = np.array([(0, 0, 0), (0, 0, 1)])
    known = {"tail": KnownAnswers.of(triples, "tail", 2, 1)}
    asked = ask_members(
        [empty.scorer], triples, known, "tail", random_negatives=3, hard_negatives=2
    )
    assert (asked.gaps == 0).all()
    assert np.isfinite(fit_weights(asked, 1, shrinkage=1.0).weights).all()


def sure_or_silent(n=400, seed=0):
    """Two members: rules, which put half of the answers first and of the others a wrong one; and a
    model, which puts all answers above most entities, but below some."""
    random = np.random.default_rng(seed)
    sure = random.random(n) < 0.5
    rules = np.where(sure, -random.uniform(0.05, 1, n), 0)[:, None] * np.ones(20)
    rules[~sure, 0] = 1
    model = random.normal(np.repeat([0.5, -4.0], 10), 1, (n, 20))
    log_counts = np.repeat(np.log([1, 1000]), 10).astype(np.float32)
    gaps = np.stack([rules, model], axis=2).astype(np.float32)
    return Comparisons(random.integers(0, 3, n), gaps, log_counts)


def test_reciprocal_ranks_count_what_stands_above_and_half_of_what_is_level():
    gaps = np.array([[[1.0, 0], [0, 0], [-1, 0]], [[0, -2], [0, 3], [0, -1]]], dtype=np.float32)
    asked = Comparisons(np.array([0, 1]), gaps, np.log([1.0, 10.0, 100.0]))
    found = reciprocal_ranks(asked, np.array([[1.0, 1.0], [5.0, 0.5]]))
    np.testing.assert_allclose(found, [1 / (1 + 1 + 5), 1 / (1 + 10)], rtol=1e-6)


def test_weights_rank_answers_better_than_those_that_make_them_likely():
    asked, other = (sure_or_silent(seed=seed) for seed in (0, 1))
    likely, ranking = fit_weights(asked, 3).weights, fit_ranking_weights(asked, 3)
    before, after = (reciprocal_ranks(other, weights).mean() for weights in (likely, ranking))
    assert before + 0.01 < after
    losses = [plain_loss(asked, range(400), scale * ranking[0], 0, 0) for scale in (0.8, 1, 1.25)]
    assert losses[1] == min(losses)  # of all that rank alike, the scale that is most likely


def test_where_there_is_little_to_judge_by_the_likelihood_decides():
    asked = comparisons(n=12)
    np.testing.assert_array_equal(
        fit_ranking_weights(asked, 2, shrinkage=1.0), fit_weights(asked, 2, shrinkage=1.0).weights
    )


def test_ranking_weights_are_repeatable_and_stay_non_negative():
    asked = comparisons(n=200, groups=3)
    found = fit_ranking_weights(asked, 3, seed=5)
    np.testing.assert_array_equal(found, fit_ranking_weights(asked, 3, seed=5))
    assert (found >= 0).all()


@pytest.mark.parametrize("kind", ["hole", "transe-l1"])  # with and without a matrix product
def test_the_papers_weights_are_where_a_general_optimiser_finds_them(kind):
    """Each triple 200 times, beside 100 with another head and 100 with another tail."""
    graph = random_graph(n_entities=12, n_relations=2, size=40)
    random, members = np.random.default_rng(0), []
    for name in ("distmult", kind):
        empty = Model.empty(name, 4, 12, 2)
        arrays = (random.normal(size=x.shape) for x in (empty.entities, empty.relations))
        members.append(Model(empty.family, 4, *arrays))
    config = EnsembleConfig(method="paper", corruptions=3000)
    found = fit_ensemble([m.scorer for m in members], graph, config).weights
    facts = {tuple(map(int, fact)) for fact in graph.train}
    for r in range(2):
        triples, labels, counts = [], [], []
        for h, _, t in (fact for fact in sorted(facts) if fact[1] == r):
            triples.append((h, r, t))
            labels.append(1)
            counts.append(200)
            for others in ([(e, r, t) for e in range(12)], [(h, r, e) for e in range(12)]):
                false = [triple for triple in others if triple not in facts]
                triples += false
                labels += [-1] * len(false)
                counts += [100 / len(false)] * len(false)
        x = np.stack([model.score(np.array(triples)) for model in members], axis=1)
        spread = x.max(axis=0) - x.min(axis=0)
        scaled = np.column_stack([(x - x.min(axis=0)) / spread, np.ones(len(x))])

        signed = np.array(labels)[:, None] * scaled

        def loss(w, signed=signed, counts=counts):
            return w @ w / 2 + counts @ np.log1p(np.exp(-signed @ w))  # LIBLINEAR with C = 1

        wanted = minimize(loss, np.zeros(3)).x[:2] / spread
        np.testing.assert_allclose(found["head"][r], wanted, rtol=0.05, atol=0.02)
        np.testing.assert_array_equal(found["head"], found["tail"])
