"""How the weights of an ensemble are found: every option, its meaning, its limits."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from bilink.errors import ConfigError

Method = Literal["stack", "paper", "best", "average", "platt"]
METHODS: dict[str, str] = {
    "stack": "weights per relation and side, fitted on held-out questions and shrunk",
    "paper": "weights per relation by logistic regression on training triples (Wang et al., 2018)",
    "best": "the member that is best on the relation",
    "average": "the mean of the members' standardised scores, the same for all relations",
    "platt": "the mean of the members' Platt-scaled probabilities (Krompaß and Tresp, 2015)",
}
_COMMON = {"method", "fit", "seed"}  # options that every method has
_OWN: dict[str, set[str]] = {
    "stack": {
        "shrinkage",
        "sides",
        "non_negative",
        "random_negatives",
        "hard_negatives",
        "triples",
    },
    "average": {"random_negatives", "triples"},
}


@dataclass(frozen=True, kw_only=True)
class EnsembleConfig:
    """Everything that is needed to fit an ensemble again, but for its members."""

    method: Method = "stack"
    fit: Literal["", "valid", "train"] = ""  # split to fit on; empty is valid, train for "paper"
    shrinkage: float = 0.0  # towards the weights of all relations; 0 is chosen by cross-validation
    sides: bool = True  # whether heads and tails have weights of their own
    non_negative: bool = True
    random_negatives: int = 40
    hard_negatives: int = 8  # from each member
    triples: int = 50_000  # at most so many are asked about
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ConfigError(f"unknown method {self.method!r}; there are {', '.join(METHODS)}")
        if not self.fit:
            object.__setattr__(self, "fit", "train" if self.method == "paper" else "valid")
        if self.fit not in ("valid", "train"):
            raise ConfigError(f"fit must be valid or train, not {self.fit!r}")
        limits = {
            "shrinkage": 0,
            "random_negatives": 1,
            "hard_negatives": 0,
            "triples": 1,
            "seed": 0,
        }
        for name, least in limits.items():
            if not least <= getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")
        self._check_applies()

    def _check_applies(self) -> None:
        """An option that the method would not look at is a mistake."""
        known = _COMMON | _OWN.get(self.method, set())
        for field in fields(self):
            if field.name not in known and getattr(self, field.name) != field.default:
                having = [method for method in METHODS if field.name in _OWN.get(method, set())]
                raise ConfigError(
                    f"the method {self.method!r} has no option {field.name}; it belongs to "
                    f"{' and '.join(having)}"
                )

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for TOML and JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "EnsembleConfig":
        """The opposite of ``to_dict``; options of version 0.1.0 are understood."""
        former = {"random_rivals": "random_negatives", "hard_rivals": "hard_negatives"}
        values = {former.get(name, name): value for name, value in values.items()}
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ConfigError(f"unknown ensemble option {sorted(unknown)[0]!r}")
        return cls(**values)


assert set(get_args(Method)) == set(METHODS)
