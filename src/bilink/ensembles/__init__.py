"""Scorers made of scorers."""

from bilink._extras import lazy

_NAMES = {
    "aggregation": ("fit_aggregation",),
    "fitting": ("EnsembleConfig", "fit_ensemble"),
    "mixture": ("MixtureScorer",),
}
__all__, __getattr__ = lazy(__name__, _NAMES)
