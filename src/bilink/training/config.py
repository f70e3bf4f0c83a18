"""What a training run is told: every option, its meaning, its limits."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from bilink.errors import ConfigError


def option(default: Any, help: str) -> Any:
    """A field with the sentence that ``bilink train --list-options`` prints for it."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, kw_only=True)
class Regularization:
    """Weights λ of the L2 penalty λ/2 ‖row‖², taken at each step on the rows it touches."""

    entity: float = option(0.0, "weight of the L2 penalty on entities")
    relation: float = option(0.0, "weight of the L2 penalty on relations")

    def __post_init__(self) -> None:
        for name in ("entity", "relation"):
            _at_least(f"regularization.{name}", getattr(self, name), 0)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Everything a run needs to be repeated, but for the model and the graph."""

    epochs: int = option(200, "passes over the training triples")
    seed: int = option(0, "seed of initialisation, order and corruptions")
    threads: int = option(0, "threads; 0 takes all cores, 1 is exactly repeatable")
    loss: Literal["margin", "sigmoid-margin", "logistic"] = option(
        "margin", "hinge on the score, hinge on its sigmoid, or logistic loss"
    )
    margin: float = option(1.0, "by how much a positive should beat a negative")
    negatives: int = option(1, "negatives for each positive and side")
    corrupt: Literal["random", "bernoulli", "both"] = option(
        "random", "side to corrupt: at random, by the relation's cardinality, or both"
    )
    plausible: float = option(
        0.0, "share of negatives drawn from entities seen in that position of the relation"
    )
    filter_negatives: bool = option(True, "reject corruptions that are training triples")
    optimizer: Literal["adagrad", "sgd"] = option("adagrad", "how slopes become steps")
    learning_rate: float = option(0.1, "step size")
    decay: float = option(1.0, "factor on the step size after each epoch")
    constraint: Literal["none", "ball", "sphere"] = option(
        "none", "keep entities anywhere, in the unit ball, or on the unit sphere"
    )
    init: Literal["normal", "uniform", "xavier"] = option(
        "normal", "initial values: N(0, s²), U(−s, s), or uniform by Glorot's rule times s"
    )
    init_scale: float = option(0.1, "the s of the initial values")
    regularization: Regularization = field(default_factory=Regularization)
    validate_every: int = option(0, "epochs between validations; 0 makes about twenty of them")
    validation_triples: int = option(1000, "size of the fixed validation sample; 0 for none")
    patience: int = option(5, "stop after so many validations without a better MRR; 0 for never")
    checkpoint_seconds: float = option(60.0, "least time between two checkpoints")

    def __post_init__(self) -> None:
        for name in ("epochs", "negatives"):
            _at_least(name, getattr(self, name), 1)
        for name in ("seed", "threads", "validate_every", "validation_triples", "patience"):
            _at_least(name, getattr(self, name), 0)
        for name, most in (("threads", 1024), ("negatives", 100_000), ("seed", 2**63)):
            if getattr(self, name) > most:
                raise ConfigError(f"{name} must be at most {most:,}, not {getattr(self, name):,}")
        for name in ("margin", "checkpoint_seconds"):
            _at_least(name, getattr(self, name), 0)
        for name in ("learning_rate", "init_scale", "decay"):
            if not 0 < getattr(self, name) < math.inf:  # also refuses NaN
                raise ConfigError(f"{name} must be positive, not {getattr(self, name)}")
        if not 0 <= self.plausible <= 1:
            raise ConfigError(f"plausible must be between 0 and 1, not {self.plausible}")
        if self.decay > 1:
            raise ConfigError(f"decay must be at most 1, not {self.decay}")
        hints = get_type_hints(type(self))
        for name, hint in hints.items():
            if get_origin(hint) is Literal and getattr(self, name) not in get_args(hint):
                known = ", ".join(get_args(hint))
                raise ConfigError(f"{name} must be one of {known}, not {getattr(self, name)!r}")

    def with_options(self, options: Mapping[str, Any]) -> "TrainingConfig":
        """A copy with other values, keyed as in ``--set``: ``regularization.entity`` and so on."""
        return _with_options(self, options, "")

    def to_dict(self) -> dict[str, Any]:
        """As nested plain values, for TOML and JSON."""
        return asdict(self)

    @property
    def validation_period(self) -> int:
        """Epochs between two validations."""
        return self.validate_every or max(1, self.epochs // 20)


# The state of a run, or what its validations are compared by, depends on these.
FIXED_ONCE_STARTED = ("seed", "optimizer", "init", "init_scale", "validation_triples")

# The plain defaults above are the paper's framework.  What a model starts from when nobody says
# otherwise is better, and was found on the validation splits of WN18 and the atlas.
_MORE = {"negatives": 5, "corrupt": "both"}
_PRODUCT = {**_MORE, "loss": "sigmoid-margin", "margin": 0.5, "constraint": "ball"}
MODEL_DEFAULTS: dict[str, dict[str, Any]] = {
    "rescal": _PRODUCT,
    "distmult": _PRODUCT,
    "hole": _PRODUCT,
    "complex": _PRODUCT,
    "transe": {**_MORE, "margin": 0.5, "constraint": "sphere"},
    "transe-l1": {**_MORE, "margin": 2.0},
}


def default_config(model: str) -> TrainingConfig:
    """The defaults of a model."""
    return TrainingConfig(**MODEL_DEFAULTS.get(model.lower(), {}))


def option_help(config: TrainingConfig | None = None) -> list[tuple[str, str, str]]:
    """(key, value, meaning) of every option, with the values of ``config`` or the defaults."""
    config = config or TrainingConfig()
    groups: list[tuple[str, Any]] = [("", config), ("regularization.", config.regularization)]
    return [
        (prefix + item.name, str(getattr(group, item.name)), item.metadata["help"])
        for prefix, group in groups
        for item in fields(group)
        if item.metadata
    ]


def parse_options(texts: list[str]) -> dict[str, str]:
    """``["epochs=10", …]`` → ``{"epochs": "10", …}``."""
    options = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"expected key=value, found {text!r}; for example --set epochs=100")
        options[key.strip()] = value.strip()
    return options


def _with_options(config: Any, options: Mapping[str, Any], prefix: str) -> Any:
    hints = get_type_hints(type(config))
    changes: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for key, value in options.items():
        name, dot, rest = key.partition(".")
        if name not in hints or (
            bool(dot) != is_dataclass(hints[name]) and not (isinstance(value, Mapping))
        ):
            raise _unknown(prefix + key)
        if isinstance(value, Mapping):
            nested.setdefault(name, {}).update(value)
        elif dot:
            nested.setdefault(name, {})[rest] = value
        else:
            changes[name] = _coerce(prefix + key, value, hints[name])
    for name, inner in nested.items():
        changes[name] = _with_options(getattr(config, name), inner, f"{prefix}{name}.")
    return replace(config, **changes)


def _unknown(key: str) -> ConfigError:
    names = [name for name, _, _ in option_help()]
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
    return ConfigError(f"unknown option {key!r}; {hint}")


def _coerce(key: str, value: Any, hint: Any) -> Any:
    """``value``, perhaps a string from the command line, as the type of the field."""
    kind = str if get_origin(hint) is Literal else hint
    if isinstance(value, str) and kind is not str:
        value = value.replace("_", "")
        if kind is bool and value.lower() in ("true", "yes", "1", "false", "no", "0"):
            return value.lower() in ("true", "yes", "1")
        try:
            value = float(value) if kind is float else int(value)
        except ValueError:
            value = None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        word = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
        raise ConfigError(f"{key} must be {word[kind]}")
    return value


def _at_least(name: str, value: float, limit: float) -> None:
    if not limit <= value < math.inf:  # also refuses NaN
        raise ConfigError(f"{name} must be at least {limit} and finite, not {value}")
