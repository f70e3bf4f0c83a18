"""Products of bytes are those of whole numbers, by either way."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bilink.queries import byte_products
from bilink.queries.byte_products import STEP, Columns, Rows, reaching

INSTRUCTION = byte_products.MULTIPLIES_BYTES


@pytest.mark.parametrize("instruction", [False, True])
@given(st.integers(1, 11), st.integers(1, 70), st.integers(1, 5), st.integers(0, 999), st.data())
def test_the_pairs_are_those_that_reach_their_limits(instruction, n, m, levels, seed, data):
    if instruction and not INSTRUCTION:
        pytest.skip("this processor, or NUMBA_DISABLE_JIT, has no instruction for bytes")
    random = np.random.default_rng(seed)
    extremes = seed % 3 == 0
    rows, columns = (
        (
            random.choice([-127, 0, 127], (k, levels * STEP))
            if extremes
            else random.integers(-127, 128, (k, levels * STEP))
        ).astype(np.int8)
        for k in (n, m)
    )
    level = data.draw(st.integers(1, levels))
    part = slice(level * STEP)
    sums = rows[:, part].astype(int) @ columns[:, part].T.astype(int)
    limits = random.choice(sums.ravel(), n).astype(float)
    limits[random.random(n) < 0.2] = random.choice([-np.inf, np.inf, 1e300, -1e300])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_products, "MULTIPLIES_BYTES", instruction)
        found = reaching(Rows.of(rows), Columns.of(columns), level, limits)
    assert sorted(found.tolist()) == np.flatnonzero(sums >= limits[:, None]).tolist()


@pytest.mark.parametrize("instruction", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_widest_products_are_exact(instruction, sign, monkeypatch):
    if instruction and not INSTRUCTION:
        pytest.skip("this processor, or NUMBA_DISABLE_JIT, has no instruction for bytes")
    monkeypatch.setattr(byte_products, "MULTIPLIES_BYTES", instruction)
    rows = np.full((3, byte_products.WIDEST), 127, dtype=np.int8)
    level, product = byte_products.WIDEST // STEP, sign * 127 * 127 * byte_products.WIDEST
    for limit, many in ((product, 3), (product + 1, 0)):
        columns = Columns.of(sign * rows[:1])
        found = reaching(Rows.of(rows), columns, level, np.full(3, float(limit)))
        assert len(found) == many


def test_the_instruction_is_not_used_where_numba_compiles_for_less():
    code = "from bilink.queries import byte_products; print(byte_products.MULTIPLIES_BYTES)"
    told = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+sse2"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **told}
    )
    assert done.stdout.split() == ["False"], done.stderr
