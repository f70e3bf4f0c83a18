"""What a training run is told: every option, its meaning, its limits."""

import difflib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from bilink.errors import ConfigError


def option(default: Any, help: str) -> Any:
    """A field with the sentence that ``bilink train --list-options`` prints for it."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, kw_only=True)
class Regularization:
    """Weights λ of a penalty, taken at each step on the rows it touches.

    "l2" is λ/2 ‖row‖², "n3" λ Σ|xₖ|³ (Lacroix et al., 2018); "dura" is λ‖entity‖² + λ‖query‖²
    (Zhang et al., 2020), where the weight of relations is that of the query.
    """

    kind: Literal["l2", "n3", "dura"] = option("l2", "the penalty; n3 and dura with softmax only")
    entity: float = option(0.0, "weight of the penalty on entities")
    relation: float = option(0.0, "weight of the penalty on relations")

    def __post_init__(self) -> None:
        for name in ("entity", "relation"):
            _at_least(f"regularization.{name}", getattr(self, name), 0)
        _check_words(self, "regularization.")


@dataclass(frozen=True, kw_only=True)
class Dropout:
    """Chances that a number of a row is left out when a query is made of it."""

    entity: float = option(0.0, "chance to leave out a number of the given entity (softmax)")
    relation: float = option(0.0, "chance to leave out a number of the relation (softmax)")

    def __post_init__(self) -> None:
        for name in ("entity", "relation"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"dropout.{name} must be at least 0 and less than 1")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Everything a run needs to be repeated, but for the model and the graph."""

    epochs: int = option(200, "passes over the training triples")
    seed: int = option(0, "seed of initialisation, order and corruptions")
    threads: int = option(0, "threads; 0 takes all cores, 1 is exactly repeatable")
    device: str = option(
        "numpy", "where entities are compared: numpy, or torch's cpu, cuda or cuda:1 (softmax)"
    )
    loss: Literal["margin", "sigmoid-margin", "logistic", "softmax"] = option(
        "margin", "hinge on the score, hinge on its sigmoid, logistic loss, or cross-entropy"
    )
    margin: float = option(1.0, "by how much a positive should beat a negative")
    negatives: int = option(
        1, "negatives for each positive and side; with softmax for a batch, 0 for all entities"
    )
    corrupt: Literal["random", "bernoulli", "both"] = option(
        "random", "side to corrupt: at random, by the relation's cardinality, or both"
    )
    plausible: float = option(
        0.0, "share of negatives drawn from entities seen in that position of the relation"
    )
    filter_negatives: bool = option(True, "reject corruptions that are training triples")
    batch_size: int = option(1000, "questions in a batch (softmax)")
    questions: Literal["per-fact", "distinct", "weighted"] = option(
        "per-fact",
        "ask for head and tail of each fact, or each distinct question once with all its "
        "answers, weighed alike or by their number (softmax)",
    )
    together: int = option(
        0, "answers of a weighted question that are asked for at once; 0 for all of them (softmax)"
    )
    full_epochs: int = option(
        0, "epochs at the end in which all entities are candidates; patience does not cut them off"
    )
    distance: Literal["squared", "plain"] = option(
        "squared", "what the softmax sees of a distance; the ranking is the same"
    )
    grain: float = option(
        0.0,
        "probabilities below it, such as 0.004, become it or nothing, with the same mean, which "
        "saves two of three products; of a sample from 5 / negatives on (softmax)",
    )
    label_smoothing: float = option(0.0, "share of the target that goes to all entities (softmax)")
    relation_prediction: float = option(
        0.0, "weight of the cross-entropy of the relation, given head and tail (softmax)"
    )
    optimizer: Literal["adagrad", "sgd", "row-adagrad", "adam"] = option(
        "adagrad", "how slopes become steps; the last two with softmax only"
    )
    learning_rate: float = option(0.1, "step size")
    decay: float = option(1.0, "factor on the step size after each epoch")
    plateau: float = option(1.0, "factor on the step size after a validation without a better MRR")
    constraint: Literal["none", "ball", "sphere"] = option(
        "none", "keep entities anywhere, in the unit ball, or on the unit sphere"
    )
    init: Literal["normal", "uniform", "xavier"] = option(
        "normal", "initial values: N(0, s²), U(−s, s), or uniform by Glorot's rule times s"
    )
    init_scale: float = option(0.1, "the s of the initial values")
    regularization: Regularization = field(default_factory=Regularization)
    dropout: Dropout = field(default_factory=Dropout)
    validate_every: int = option(0, "epochs between validations; 0 makes about twenty of them")
    validation_triples: int = option(1000, "size of the fixed validation sample; 0 for none")
    patience: int = option(5, "stop after so many validations without a better MRR; 0 for never")
    keep: Literal["best", "last"] = option(
        "best", "the model that a run ends with: the best on validation, or the last"
    )
    minutes: float = option(0.0, "stop after so many minutes of training; 0 for never")
    checkpoint_seconds: float = option(60.0, "least time between two checkpoints")

    def __post_init__(self) -> None:
        _check_words(self, "")
        for name in ("epochs", "batch_size"):
            _at_least(name, getattr(self, name), 1)
        _at_least("negatives", self.negatives, 0 if self.softmax else 1)
        for name in (
            "seed",
            "threads",
            "validate_every",
            "validation_triples",
            "patience",
            "together",
        ):
            _at_least(name, getattr(self, name), 0)
        limits = {"threads": 1024, "negatives": 100_000, "seed": 2**63}
        limits |= dict.fromkeys(("batch_size", "together"), 10**9)
        for name, most in limits.items():
            if getattr(self, name) > most:
                raise ConfigError(f"{name} must be at most {most:,}, not {getattr(self, name):,}")
        for name in ("margin", "minutes", "checkpoint_seconds", "relation_prediction"):
            _at_least(name, getattr(self, name), 0)
        _at_least("full_epochs", self.full_epochs, 0)
        for name in ("learning_rate", "init_scale", "decay", "plateau"):
            if not 0 < getattr(self, name) < math.inf:  # also refuses NaN
                raise ConfigError(f"{name} must be positive, not {getattr(self, name)}")
        for name in ("plausible", "label_smoothing", "grain"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be between 0 and 1, not {getattr(self, name)}")
        for name in ("decay", "plateau"):
            if getattr(self, name) > 1:
                raise ConfigError(f"{name} must be at most 1, not {getattr(self, name)}")
        if not re.fullmatch(r"numpy|cpu|cuda(:\d+)?", self.device):
            raise ConfigError(f"device must be numpy, cpu, cuda or cuda:1, not {self.device!r}")
        self._check_engine()

    def _check_engine(self) -> None:
        """Refuse what only the other engine does, since it would be ignored."""
        foreign = MARGIN_ONLY if self.softmax else SOFTMAX_ONLY
        kind = "softmax" if self.softmax else "margin"
        for name, plain in foreign.items():
            if (value := _get(self, name)) != plain:
                raise ConfigError(f"{name}={value} does not go with the {kind} loss; leave it out")
        if self.softmax and self.negatives and self.label_smoothing:
            raise ConfigError(
                "label_smoothing goes with all entities as candidates; set negatives=0"
            )
        if self.together and self.questions != "weighted":
            raise ConfigError(
                f"together={self.together} goes with questions=weighted only; set together=0"
            )
        if self.grain:
            _at_least("grain", self.grain, 1e-6)  # unless it is 0
        if self.grain and (self.label_smoothing or self.device != "numpy"):
            raise ConfigError("grain goes with device=numpy, without label_smoothing; leave it out")
        if 0 < self.grain * self.negatives < PAYS and not self.full_epochs:
            raise ConfigError(
                f"with {self.negatives:,} negatives, grain pays from {PAYS / self.negatives:g} on; "
                "make it larger, or leave it out"
            )
        if self.full_epochs and not self.negatives:
            raise ConfigError("full_epochs means nothing with negatives=0: all epochs are full")
        if self.full_epochs and self.minutes:
            raise ConfigError("minutes may end a run before its full_epochs; leave one of them out")
        if not self.softmax and self.optimizer in ("row-adagrad", "adam"):
            raise ConfigError(f"optimizer={self.optimizer} goes with loss=softmax only")

    @property
    def softmax(self) -> bool:
        """Whether the batch engine trains, and not the per-triple engine."""
        return self.loss == "softmax"

    def with_options(self, options: Mapping[str, Any]) -> "TrainingConfig":
        """A copy with other values, keyed as in ``--set``: ``regularization.entity`` and so on.

        Who asks other questions than weighted ones need not say that they come in no parts.
        """
        if options.get("questions", "weighted") != "weighted":
            options = {"together": 0, **options}
        return _with_options(self, options, "")

    def to_dict(self) -> dict[str, Any]:
        """As nested plain values, for TOML and JSON."""
        return asdict(self)

    @property
    def validation_period(self) -> int:
        """Epochs between two validations."""
        return self.validate_every or max(1, self.epochs // 20)


# Candidates to each that may be kept, from which on rounding by ``grain`` is faster than products.
PAYS = 5

# The state of a run, or what its validations are compared by, depends on these.
FIXED_ONCE_STARTED = ("seed", "optimizer", "init", "init_scale", "validation_triples")

# What one engine alone understands, with the value that means "nothing of it".
SOFTMAX_ONLY: dict[str, Any] = {
    "questions": "per-fact",
    "together": 0,
    "full_epochs": 0,
    "distance": "squared",
    "grain": 0.0,
    "label_smoothing": 0.0,
    "relation_prediction": 0.0,
    "device": "numpy",
    "regularization.kind": "l2",
    "dropout.entity": 0.0,
    "dropout.relation": 0.0,
}
MARGIN_ONLY = {
    "margin": 1.0,
    "corrupt": "random",
    "plausible": 0.0,
    "constraint": "none",
    "filter_negatives": True,
}


def option_help(config: TrainingConfig | None = None) -> list[tuple[str, str, str]]:
    """(key, value, meaning) of every option, with the values of ``config`` or the defaults."""
    config = config or TrainingConfig()
    groups: list[tuple[str, Any]] = [
        ("", config),
        ("regularization.", config.regularization),
        ("dropout.", config.dropout),
    ]
    return [
        (prefix + item.name, str(getattr(group, item.name)), item.metadata["help"])
        for prefix, group in groups
        for item in fields(group)
        if item.metadata
    ]


def flat(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Keys as in ``--set``: ``{"dropout": {"entity": 0.1}}`` → ``dropout.entity``, 0.1."""
    groups = {key.partition(".")[0] for key, _, _ in option_help() if "." in key}
    for key, value in options.items():
        if key in groups and isinstance(value, Mapping):
            yield from flat(value, f"{key}.")
        else:
            yield prefix + key, value


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


def _get(config: Any, key: str) -> Any:
    """The value of an option by its key in ``--set``."""
    for name in key.split("."):
        config = getattr(config, name)
    return config


def _check_words(config: Any, prefix: str) -> None:
    """Complain about a word that an option does not know."""
    for name, hint in get_type_hints(type(config)).items():
        if get_origin(hint) is Literal and getattr(config, name) not in get_args(hint):
            known = ", ".join(get_args(hint))
            value = getattr(config, name)
            raise ConfigError(f"{prefix}{name} must be one of {known}, not {value!r}")


def _at_least(name: str, value: float, limit: float) -> None:
    if not limit <= value < math.inf:  # also refuses NaN
        raise ConfigError(f"{name} must be at least {limit} and finite, not {value}")
