"""Scorers made of scorers."""

from bilink._extras import lazy

_HOMES = {
    "EnsembleConfig": "fitting",
    "MixtureScorer": "mixture",
    "fit_ensemble": "fitting",
}
__all__ = list(_HOMES)
__getattr__ = lazy(__name__, _HOMES)
