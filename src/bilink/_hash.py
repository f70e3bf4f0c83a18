"""Pseudo-random numbers inside kernels: splitmix64."""

import numpy as np

from bilink._jit import kernel_function


@kernel_function
def mix(z):
    """The finalizer of splitmix64: a good hash of 64 bits."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel_function
def draw(state, n):
    """A random integer below n ≤ 2³¹; advances the one-element ``state``."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return np.int64(((mix(state[0]) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))
