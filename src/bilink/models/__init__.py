"""What a score is: one file per model, the form, the scorer, the registry, storage."""

from bilink._extras import lazy

_NAMES = {
    "form": ("Form",),
    "model": ("Model",),
    "registry": ("FAMILIES", "Family", "family"),
    "readout": ("Readout",),
    "scorer": ("SIDES", "Scorer", "Side"),
    "storage": ("load_model", "save_model"),
}
__all__, __getattr__ = lazy(__name__, _NAMES)
