"""The target configs: config.toml files, which people edit to begin another run with."""

from pathlib import Path

from harness import SEEDS, Seed, Target, read_seeds

from bilink.errors import ConfigError
from bilink.runs.config import read_config_file
from bilink.runs.job import Job, load_source

TOKENS = (
    *(b"\n[training]\n", b"\n[training.regularization]\n", b"loss = 'softmax'", b"negatives = 5"),
    *(b"1979-05-27T07:32:00Z", b"'''", b" = {a.b.c = 1}", b"[1, 2]", b"1e308", b"true"),
)


def run(path: Path) -> None:
    """Read the config, and plan the run that it describes."""
    config = read_config_file(path)
    graph = load_source(config)
    try:
        Job(graph, config).plan()
    except MemoryError:
        raise ConfigError("too large") from None


TARGET = Target(
    "configs",
    [
        Seed(f"{seed.name}.toml", {f"{seed.name}.toml": seed.content["config.toml"]}, False)
        for seed in read_seeds(SEEDS / "run_folders")
    ]
    + read_seeds(SEEDS / "configs"),
    run,
    TOKENS,
)
