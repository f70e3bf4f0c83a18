"""Random streams: every use of randomness has a number of its own, here and nowhere else.

A stream is determined by the seed, its number and, where it is drawn anew each time, further
numbers such as the epoch.  The numbers are part of the promise that a seed repeats a run.
"""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What is drawn."""

    INITIAL = 0  # initial parameters
    EPOCH = 1  # order, negatives, dropout and rounding of an epoch
    VALIDATION = 2  # the validation sample
    ENSEMBLE_SAMPLE = 3  # triples that an ensemble is fitted on
    ENSEMBLE_NEGATIVES = 4  # false triples that an ensemble is fitted on
    SHARES = 5  # triples by which members of an ensemble are compared
    CALIBRATION_FOLDS = 6
    RELIABILITY = 7  # labels of a perfectly calibrated model
    CALIBRATION_QUERIES = 8
    AUDIT_FOLDS = 9
    ENSEMBLE_DRAWS = 10  # random negatives of an ensemble's questions
    SHRINKAGE_FOLDS = 11
    PATH_FACTS = 12  # facts and starts that paths of three steps are sampled from
    PATH_ORDER = 13  # of the paths in an epoch of PTransE
    PATH_CLUSTERS = 14  # heads that paths are compared on
    AUDIT_ERRORS = 15  # planted to see what they look like
    FACTOR_FOLDS = 16
    PARTS = 17  # of training in parts: who is in which, and the seed of each bucket
    CONVOLUTION = 18  # initial parameters, negatives and dropout of a graph convolution


def seeds(seed: int, stream: Stream, *more: int) -> np.random.SeedSequence:
    """The seeds of a stream."""
    return np.random.SeedSequence([seed, int(stream), *more])


def generator(seed: int, stream: Stream, *more: int) -> np.random.Generator:
    """The generator of a stream."""
    return np.random.default_rng([seed, int(stream), *more])
