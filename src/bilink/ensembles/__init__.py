"""Scorers made of scorers."""

from bilink._lazy import lazy

_HOMES = {
    "EnsembleConfig": "config",
    "MixtureScorer": "mixture",
    "fit_ensemble": "fitting",
}
__all__ = list(_HOMES)
__getattr__ = lazy(__name__, _HOMES)
