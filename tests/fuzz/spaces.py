"""The target spaces: space files of ``bilink search``."""

from harness import SEEDS, Target, read_seeds

from bilink.search.space import read_space

TOKENS = (
    *(b"\n[space]\n", b"\n[fixed]\n", b"\n[search]\n", b"{ low = 1, high = 2 }", b"log = true"),
    *(b"method = 'grid'", b"model = ['transe']", b"[[space]]", b"1979-05-27", b"[1, [2]]", b"step"),
)
TARGET = Target("spaces", read_seeds(SEEDS / "spaces"), read_space, TOKENS)
