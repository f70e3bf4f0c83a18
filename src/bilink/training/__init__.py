"""How parameters move: options, presets, the loop, two engines, optimizers, new entities."""

from bilink._extras import lazy

_HOMES = {
    "PRESETS": "presets",
    "Config": "config",
    "Frozen": "fold_in",
    "MarginConfig": "config",
    "SoftmaxConfig": "config",
    "TrainingResult": "loop",
    "choose": "presets",
    "fit": "loop",
    "preset": "presets",
    "read_config": "config",
}
__all__ = list(_HOMES)
__getattr__ = lazy(__name__, _HOMES)
