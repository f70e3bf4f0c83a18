"""Where parameters begin."""

import numpy as np

from bilink.models.model import Model
from bilink.training.config import TrainingConfig


def initialise(model: Model, config: TrainingConfig) -> None:
    """Fill the model's arrays with random values, the same for the same seed."""
    random = np.random.default_rng([config.seed, 0])
    for array in (model.entities, model.relations):
        if config.init == "normal":
            random.standard_normal(out=array, dtype=array.dtype)
            array *= config.init_scale
        else:
            bound = config.init_scale
            if config.init == "xavier":
                bound *= np.sqrt(6 / sum(array.shape))
            random.random(out=array, dtype=array.dtype)
            array -= 0.5
            array *= 2 * bound
    if config.constraint != "none":
        norms = np.linalg.norm(model.entities, axis=1, keepdims=True)
        if config.constraint == "ball":
            norms = np.maximum(norms, 1)
        model.entities[:] /= np.where(norms > 0, norms, 1)
