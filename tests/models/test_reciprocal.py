"""Reciprocal models beside each other: machine code that is kept on disk is linked by its name."""

import os
import subprocess
import sys

import pytest

from bilink.models.reciprocal import SUFFIX
from bilink.models.registry import FAMILIES, family

CODE = """
import sys
import numpy as np
from bilink.models.model import Model

asked = np.array([[1, 0], [2, 1], [5, 1]])
for name in sys.argv[1:]:
    model = Model.empty(name, 3, 6, 2)
    for array in (model.entities, model.relations):
        array[:] = np.random.default_rng(0).normal(size=array.shape)
    for side in ("tail", "head"):
        print(name, side, *model.scorer.queries(side, *asked.T).ravel().tolist())
"""


def test_no_two_kernel_functions_have_the_same_name():
    named = {}
    for model in (x for name in FAMILIES for x in (name, name + SUFFIX)):
        for kernel in family(model).kernels.values():
            function = getattr(kernel, "py_func", kernel)
            name = function.__module__, function.__qualname__
            assert named.setdefault(name, function) is function, name


@pytest.mark.slow
def test_code_from_the_cache_is_that_of_the_right_model(tmp_path):
    """Two processes compile a model each, and a third one uses both.

    The names that Numba gives depend on the order of a set, so that the seed of hashes is given.
    """
    models = ["complex-reciprocal", "transe-reciprocal"]

    def queries(*names):
        env = {**os.environ, "BILINK_CACHE": str(tmp_path), "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [sys.executable, "-c", CODE, *names], capture_output=True, text=True, env=env
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    alone = [queries(name) for name in models]
    assert queries(*models) == "".join(alone)
