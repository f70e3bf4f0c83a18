"""Quick to import, and compiled once."""

import os
import subprocess
import sys

CODE = """
import hashlib
import bilink
from bilink.models.scorer import fill_queries
from bilink.models.registry import family
from bilink.training.margin_kernels import train_chunk
run = bilink.train(
    "atlas", "complex", 31, epochs=2, threads=1, validation_triples=5, preset="margin"
)
bound = [family("complex").bind(t) for t in (train_chunk, fill_queries)]
print(sum(sum(f.stats.cache_misses.values()) for f in bound))
print(hashlib.sha256(run.model.entities.tobytes()).hexdigest())
"""


def run(code, **env):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_second_process_compiles_nothing_and_no_compilation_changes_a_bit(tmp_path):
    """Left to itself, the compiler fuses and reorders differently from one time to the next."""
    places = [tmp_path / "a", tmp_path / "a", tmp_path / "b"]
    found = [run(CODE, BILINK_CACHE=str(place)).split() for place in places]
    assert [int(misses) > 0 for misses, _ in found] == [True, False, True]
    assert len({bits for _, bits in found}) == 1
    for path in places[0].rglob("*.nb?"):  # a damaged cache is compiled and written anew
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert [int(run(CODE, BILINK_CACHE=str(places[0])).split()[0]) > 0 for _ in range(2)] == [
        True,
        False,
    ]


def test_without_a_place_for_the_cache_it_still_works(tmp_path):
    (tmp_path / "file").write_text("")
    assert run(CODE, BILINK_CACHE=str(tmp_path / "file" / "cache"))


def test_importing_bilink_loads_no_other_package():
    """Whoever asks for a version or a help text does not wait for NumPy, Numba or Polars."""
    loaded = "{name.partition('.')[0] for name in sys.modules}"
    started = f"import sys; before = {loaded}; import bilink; print(*sorted({loaded} - before))"
    assert set(run(started).split()) - set(sys.stdlib_module_names) == {"bilink"}
