"""Whether one run is better than another, or lucky."""

from dataclasses import dataclass

import numpy as np

from bilink.errors import ConfigError, DataError
from bilink.evaluation.entity_ranking import EntityRanking
from bilink.evaluation.metrics import HITS, gains
from bilink.models.scorer import SIDES

FLIPS = 9_999
_BYTES = 64 * 2**20  # for the signs of a block of flips


@dataclass(frozen=True)
class PairedTest:
    """The difference of a metric between two runs on the same triples."""

    metric: str
    difference: float  # first minus second
    interval95: tuple[float, float]  # bootstrap over triples
    p_value: float  # two-sided sign-flip test
    better: int  # triples on which the first run is better
    worse: int


def paired_test(
    first: EntityRanking, second: EntityRanking, metric: str = "mrr", seed: int = 0
) -> PairedTest:
    """Compare two rankings of the same triples under the same protocol.

    The sign-flip test asks how often a difference as large would come about if, for each triple,
    it were left to chance which run is called first.
    """
    if metric not in ("mrr", "mr", *(f"hits@{k}" for k in HITS)):
        raise ConfigError(f"cannot test the difference in {metric!r}; there are mrr, mr and hits@k")
    for name in ("split", "filter", "ties", "fingerprint"):
        if getattr(first, name) != getattr(second, name):
            raise DataError(
                f"the two results cannot be compared: their {name} differs "
                f"({getattr(first, name)} and {getattr(second, name)})"
            )
    if not np.array_equal(first.triples, second.triples):
        raise DataError("the two results cannot be compared: they rank different triples")
    gaps = np.mean(
        [gains(first.values(s), metric) - gains(second.values(s), metric) for s in SIDES], axis=0
    )
    random = np.random.default_rng(seed)
    observed = float(gaps.mean())
    low, high = np.quantile(_resampled_means(gaps, random), [0.025, 0.975])
    sign = -1 if metric == "mr" else 1
    return PairedTest(
        metric=metric,
        difference=observed,
        interval95=(float(low), float(high)),
        p_value=_sign_flip_p(gaps, random),
        better=int(np.count_nonzero(sign * gaps > 0)),
        worse=int(np.count_nonzero(sign * gaps < 0)),
    )


def _resampled_means(gaps: np.ndarray, random: np.random.Generator) -> np.ndarray:
    n = len(gaps)
    return np.array([gaps[random.integers(0, n, n)].mean() for _ in range(1000)])


def _sign_flip_p(gaps: np.ndarray, random: np.random.Generator) -> float:
    """The share of sign flips whose sum is at least as far from zero as the observed one."""
    gaps = gaps[gaps != 0]
    if len(gaps) == 0:
        return 1.0
    limit = abs(gaps.sum()) * (1 - 1e-12)  # the observed signs themselves must count
    extreme, done = 1, 0
    block = max(1, _BYTES // (9 * len(gaps)))
    while done < FLIPS:
        rows = min(block, FLIPS - done)
        bits = np.frombuffer(random.bytes(rows * (-(-len(gaps) // 8))), dtype=np.uint8)
        signs = np.unpackbits(bits.reshape(rows, -1), axis=1, count=len(gaps))
        sums = 2 * (signs @ gaps) - gaps.sum()
        extreme += int(np.count_nonzero(np.abs(sums) >= limit))
        done += rows
    return extreme / (FLIPS + 1)
