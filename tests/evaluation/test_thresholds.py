"""Thresholds against brute force over all cuts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from bilink.evaluation.classification import accuracy_curve, choose_thresholds, cut_points

# Few different scores, so that there are many ties.
EXAMPLES = st.lists(
    st.tuples(st.integers(-3, 3).map(float), st.booleans(), st.integers(0, 2)),
    min_size=1,
    max_size=30,
)


def columns(examples):
    scores, labels, relations = zip(*examples, strict=True)
    return np.array(scores), np.array(labels), np.array(relations)


@given(EXAMPLES)
def test_the_curve_is_what_counting_at_every_cut_gives(examples):
    scores, labels, _ = columns(examples)
    values, correct = accuracy_curve(scores, labels)
    assert correct.tolist() == [
        naive.correct(scores, labels, threshold) for threshold in naive.cuts(scores.tolist())
    ]
    np.testing.assert_allclose(cut_points(values), naive.cuts(scores.tolist()))


@given(EXAMPLES)
def test_without_a_prior_each_relation_gets_its_own_best_accuracy(examples):
    scores, labels, relations = columns(examples)
    thresholds = choose_thresholds(scores, labels, relations, 3, prior=0)
    for r in set(relations.tolist()):
        own = scores[relations == r].tolist(), labels[relations == r].tolist()
        best = max(naive.correct(*own, cut) for cut in naive.cuts(own[0]))
        assert naive.correct(*own, thresholds[r]) == best


@given(EXAMPLES, st.sampled_from([0.0, 0.5, 3.0, 10.0, 1e6]))
def test_with_a_prior_the_sum_of_own_and_common_accuracy_is_best(examples, prior):
    scores, labels, relations = columns(examples)
    thresholds = choose_thresholds(scores, labels, relations, 4, prior=prior)

    def worth(r, cut):
        own = naive.correct(scores[relations == r], labels[relations == r], cut)
        return own + prior * naive.correct(scores, labels, cut) / len(scores)

    for r in range(4):  # the last one has no examples
        best = max(worth(r, cut) for cut in naive.cuts(scores.tolist()))
        assert worth(r, thresholds[r]) == pytest.approx(best, rel=1e-12)


def test_of_equally_good_cuts_the_one_that_is_good_for_all_is_taken():
    scores = np.array([0.0, 10.0, 4.0, 5.0, 6.0, 7.0])
    labels = np.array([False, True, False, False, True, True])
    relations = np.array([0, 0, 1, 1, 1, 1])
    assert choose_thresholds(scores, labels, relations, 3, prior=0).tolist() == [5.5, 5.5, 5.5]
    two_gaps = [(0.0, False, 0), (1.0, True, 0), (2.0, False, 0), (3.0, True, 0)]
    common = [(1.5, False, 1), (2.5, True, 1), (2.6, True, 1)]
    assert choose_thresholds(*columns([*two_gaps, *common]), 2, prior=0)[0] == 2.25


def test_few_examples_do_not_outweigh_the_others_but_many_do():
    common = [(float(x), x > 0, 0) for x in range(-50, 51)]
    odd = [(20.0, False, 1), (30.0, True, 1)]
    for repeat, threshold in ((1, 0.5), (50, 20.5)):
        scores, labels, relations = columns([*common, *odd * repeat])
        assert choose_thresholds(scores, labels, relations, 2, prior=10.0)[1] == threshold


def test_neighbouring_numbers_are_separated_and_huge_ones_too():
    for low in (1.0, 1e300, -1e300, 5e-324, 2.0**60):
        high = np.nextafter(low, np.inf)
        scores, labels = np.array([low, high]), np.array([False, True])
        (threshold,) = choose_thresholds(scores, labels, np.zeros(2, dtype=int), 1)
        assert (scores > threshold).tolist() == [False, True]
        (lowest,) = choose_thresholds(scores, labels | True, np.zeros(2, dtype=int), 1)
        assert (scores > lowest).all()
