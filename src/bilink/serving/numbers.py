"""Numbers as JSON has them."""

import math


def finite(value: float | None) -> float | None:
    """The number, or None for one that JSON does not know."""
    return None if value is None or not math.isfinite(value) else float(value)
