"""Scores from paths: rules that are counted, and a scorer that walks along them."""

from bilink._extras import lazy

_NAMES = {
    "mining": ("mine",),
    "model": ("PathModel",),
    "rules": ("MiningConfig", "Rules"),
    "scorer": ("PathScorer",),
}
__all__, __getattr__ = lazy(__name__, _NAMES)
