"""Rules: what was counted, in tables that are kept, read and walked along.

Two kinds of rules, of directed relations (``adjacency``):

    r(X, Y) ← d₁(X, Z), d₂(Z, Y)       a *path*: one to three steps from X to Y
    e(X, c) ← s(X, d), or s(X, ·)      a rule with *constants*: what X has says what else it has

The confidence of a rule is support / (groundings + prior): of the pairs for which the body holds,
the share for which the head holds as well, with some pairs more for which it does not, so that few
groundings do not make certainty.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from bilink.errors import ConfigError

STEPS = 3  # of the longest path
NONE = -1  # a step that a shorter path does not have


def _option(default: Any, help: str, least: float = 0, most: float = 2**62) -> Any:
    return field(default=default, metadata={"help": help, "limits": (least, most)})


@dataclass(frozen=True, kw_only=True)
class MiningConfig:
    """What is counted, and which rules are kept."""

    length: int = _option(STEPS, "steps of the longest paths", 1, STEPS)
    constants: bool = _option(True, "whether rules with constants are counted too")
    support: int = _option(2, "a rule holds for at least so many pairs", 1)
    confidence: float = _option(0.001, "of a rule, at least", 0, 1)
    prior: float = _option(5.0, "pairs without the head that are added to every body")
    per_relation: int = _option(1000, "paths that are kept of a relation, the best ones", 1)
    per_constant: int = _option(50, "rules with constants that are kept of a head", 1)
    hub: int = _option(3000, "entities with more edges are not crossed", 1)
    effort: float = _option(1.0, "how much is sampled for paths of three steps", 0, 1e6)
    overlap: float = _option(
        0.5, "paths whose predictions overlap by as much (Jaccard) form a cluster", 0, 1
    )
    seed: int = _option(0, "of the samples")

    def __post_init__(self) -> None:
        for each in fields(self):
            value, (least, most) = getattr(self, each.name), each.metadata["limits"]
            kind = type(each.default)
            if kind is bool:
                if not isinstance(value, bool):
                    raise ConfigError(f"{each.name} must be true or false, not {value!r}")
                continue
            numbers = int if kind is int else int | float
            if isinstance(value, bool) or not isinstance(value, numbers):
                what = "a whole number" if kind is int else "a number"
                raise ConfigError(f"{each.name} must be {what}, not {value!r}")
            if not least <= value <= most:
                bound = f" and at most {most:g}" if most < 2**62 else ""
                raise ConfigError(f"{each.name} must be at least {least:g}{bound}, not {value}")

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for TOML and JSON."""
        return asdict(self)

    def with_options(self, options: Mapping[str, Any]) -> "MiningConfig":
        """The same but for ``options``; numbers may be given as text."""
        kinds = {each.name: type(each.default) for each in fields(self)}
        unknown = [name for name in options if name not in kinds]
        if unknown:
            raise ConfigError(f"paths have no option {unknown[0]!r}; there are {', '.join(kinds)}")
        return replace(self, **{n: _parsed(n, v, kinds[n]) for n, v in options.items()})


def option_help() -> list[tuple[str, str, str]]:
    """Name, default and meaning of each option of paths."""
    rows = [
        (each.name, str(each.default).lower(), each.metadata["help"])
        for each in fields(MiningConfig)
    ]
    choice = "how rules are aggregated: auto, learnt, max, sum, noisy-or or clusters"
    return [*rows, ("aggregation", "auto", choice)]


def _parsed(name: str, value: Any, kind: type) -> Any:
    """An option's value, from text if need be."""
    if not isinstance(value, str):
        return value
    if kind is bool:
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{name} must be true or false, not {value!r}")
        return value.lower() == "true"
    try:
        return kind(value)
    except ValueError:
        article = "a whole number" if kind is int else "a number"
        raise ConfigError(f"{name} must be {article}, not {value!r}") from None


@dataclass(frozen=True, eq=False)
class Rules:
    """The rules of one graph, with what was counted for each.

    ``paths`` has a row (r, d₁, d₂, d₃) for each path, with −1 for steps that it does not have, and
    ``constants`` a row (e, c, s, d) for each rule with constants, with d = −1 for any d.  Paths
    stand by relation, rules with constants by (e, c); each with the most confident first.
    """

    n_relations: int
    config: MiningConfig
    paths: np.ndarray  # int32, (n, 4)
    path_counts: np.ndarray  # int64, (n, 2): support and groundings
    constants: np.ndarray  # int32, (m, 4)
    constant_counts: np.ndarray  # int64, (m, 2)
    hubs: int = 0  # entities that were not crossed
    # int32, (n,): of each path, the most confident one of its cluster; see ``clusters``
    clusters: np.ndarray | None = None

    @cached_property
    def path_confidence(self) -> np.ndarray:
        """Of each path."""
        return confidence(self.path_counts, self.config.prior)

    @cached_property
    def constant_confidence(self) -> np.ndarray:
        """Of each rule with constants."""
        return confidence(self.constant_counts, self.config.prior)

    def of_relation(self, relation: int) -> Iterator[int]:
        """The numbers of the paths of a relation, the most confident first."""
        first, last = np.searchsorted(self.paths[:, 0], (relation, relation + 1))
        return iter(range(int(first), int(last)))

    def __len__(self) -> int:
        return len(self.paths) + len(self.constants)

    def __repr__(self) -> str:
        return f"Rules({len(self.paths):,} paths, {len(self.constants):,} with constants)"


def confidence(counts: np.ndarray, prior: float) -> np.ndarray:
    """Support / (groundings + prior)."""
    return counts[:, 0] / np.maximum(counts[:, 1] + prior, 1e-12)
