"""What an epoch came to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EpochTotals:
    """What one pass over the training triples came to, by either engine."""

    loss: float  # mean over pairs of a positive and a negative, or over questions with a softmax
    violated: float  # share of pairs that broke the margin, or of answers that a candidate beat
    pairs: int  # that were compared; questions with a softmax
