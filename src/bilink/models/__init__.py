"""What a score is: one file per model, the form, the scorer, the registry, storage."""

from bilink._extras import lazy

_HOMES = {
    "FAMILIES": "registry",
    "SIDES": "scorer",
    "Family": "registry",
    "Form": "form",
    "Model": "model",
    "Probability": "scorer",
    "Readout": "scorer",
    "Scorer": "scorer",
    "Side": "scorer",
    "family": "registry",
    "load_model": "storage",
    "save_model": "storage",
}
__all__ = list(_HOMES)
__getattr__ = lazy(__name__, _HOMES)
