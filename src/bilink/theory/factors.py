"""Two factors and a threshold: how one relation's facts are told from its non-facts."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Factors:
    """A rounding decomposition of one relation: ⟨left[i], right[j]⟩ > threshold ⇔ (i, j) holds.

    ``left`` and ``right`` have shape (N, r), float64.
    """

    left: np.ndarray
    right: np.ndarray
    threshold: float
