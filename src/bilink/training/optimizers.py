"""How gradients become steps, for all engines.

Adagrad adds ``EPSILON`` under its root, unless margin training is told another constant.  At the
start of a run from small values, the gradients of a batch's mean are 1e-9 and less; a larger
constant would swallow their squares, and the first epochs with them.
Adam's constant is outside of its root, as in its paper.
"""

import numpy as np

from bilink._jit import kernel, kernel_function
from bilink._threads import ThreadPool
from bilink.models.form import dot

OPTIMIZERS = {"adagrad": 0, "sgd": 1, "row-adagrad": 2, "adam": 3}
ADAGRAD, SGD, ROW_ADAGRAD, ADAM = OPTIMIZERS.values()
EPSILON = np.float32(1e-24)
ADAM_MEAN, ADAM_SQUARE = 0.9, 0.999  # how much of the running means each step keeps
ADAM_EPSILON = np.float32(1e-8)
# Width of the first and the second state of a row; None is that of the row itself.
_WIDTHS = {"adagrad": (None, 0), "sgd": (0, 0), "row-adagrad": (1, 0), "adam": (None, None)}


@kernel_function
def move_row(row, state, gradient, rate, penalty, optimizer, epsilon):
    """One step of Adagrad or SGD on a row, with ``penalty`` · row added to the gradient (L2)."""
    if optimizer == ADAGRAD:
        for k in range(row.shape[0]):
            g = gradient[k] + penalty * row[k]
            state[k] += g * g
            row[k] -= rate * g / np.sqrt(state[k] + epsilon)
    else:
        for k in range(row.shape[0]):
            row[k] -= rate * (gradient[k] + penalty * row[k])


@kernel_function
def move_scaled_row(row, scales, state, gradient, rate, penalty, optimizer, epsilon):
    """The step of ``move_row`` on x = row / scales, where the gradient is that of the row."""
    for k in range(row.shape[0]):
        g = gradient[k] * scales[k] + penalty * row[k] / scales[k]
        if optimizer == ADAGRAD:
            state[k] += g * g
            g /= np.sqrt(state[k] + epsilon)
        row[k] -= rate * g * scales[k]


@kernel_function
def _row_adagrad(row, state, gradient, rate):
    """One step of Adagrad with one state for the whole row."""
    state[0] += dot(gradient, gradient) / np.float32(row.shape[0])
    factor = rate / np.sqrt(state[0] + EPSILON)
    for k in range(row.shape[0]):
        row[k] -= factor * gradient[k]


@kernel_function
def _adam(row, state, moment, gradient, rate, step):
    """One step of Adam; ``step`` is from 1."""
    a, b = np.float32(ADAM_MEAN), np.float32(ADAM_SQUARE)
    c, d = np.float32(1 - ADAM_MEAN), np.float32(1 - ADAM_SQUARE)
    # Both means start at 0; this makes up for it.
    factor = rate * np.float32(np.sqrt(1 - ADAM_SQUARE**step) / (1 - ADAM_MEAN**step))
    for k in range(row.shape[0]):
        g = gradient[k]
        state[k] = a * state[k] + c * g
        moment[k] = b * moment[k] + d * (g * g)
        row[k] -= factor * state[k] / (np.sqrt(moment[k]) + ADAM_EPSILON)


@kernel
def move_rows(first, last, arrays, gradients, rows, places, rate, optimizer, step):
    """Move params[rows[i]] by gradients[places[i]]; ``arrays`` are params and both states.

    Gradients come with their penalties.
    """
    params, state, moment = arrays
    for i in range(first, last):
        r, g = rows[i], gradients[places[i]]
        if optimizer == ROW_ADAGRAD:
            _row_adagrad(params[r], state[r], g, rate)
        elif optimizer == ADAM:
            _adam(params[r], state[r], moment[r], g, rate, step)
        else:
            move_row(params[r], state[r], g, rate, np.float32(0), optimizer, EPSILON)


class Optimizer:
    """An array of parameters, and the state that an optimizer keeps for it."""

    def __init__(self, params: np.ndarray, name: str, pool: ThreadPool | None = None):
        self.params, self.number = params, OPTIMIZERS[name]
        self._pool = pool
        self.first, self.second = (
            np.zeros((len(params), params.shape[1] if width is None else width), dtype=params.dtype)
            for width in _WIDTHS[name]
        )

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The optimizer's arrays, by name."""
        return {"state": self.first, "second_state": self.second}

    def adopt(self, first: np.ndarray, second: np.ndarray) -> None:
        """Go on with these arrays of state, in place."""
        self.first, self.second = first, second

    def step(
        self,
        gradients: np.ndarray,
        rate: np.float32,
        number: int,
        rows: np.ndarray | None = None,
        places: np.ndarray | None = None,
    ) -> None:
        """Move ``rows``, or all, by the gradients at ``places``, which are ``rows`` unless given.

        ``number`` counts the steps from one.
        """
        assert self._pool is not None
        rows = np.arange(len(gradients)) if rows is None else rows
        places = rows if places is None else places
        arrays = self.params, self.first, self.second
        steps = rate, self.number, number
        self._pool.spread(move_rows, len(rows), arrays, gradients, rows, places, *steps)
