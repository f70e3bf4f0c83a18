"""How parameters move: options, presets, the loop, three engines, optimizers, new entities."""

from bilink._extras import lazy

_NAMES = {
    "config": ("Config", "MarginConfig", "RgcnConfig", "SoftmaxConfig", "read_config"),
    "fold_in": ("Frozen",),
    "loop": ("TrainingResult", "fit"),
    "presets": ("PRESETS", "choose", "preset"),
}
__all__, __getattr__ = lazy(__name__, _NAMES)
