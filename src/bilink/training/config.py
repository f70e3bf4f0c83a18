"""Training options: what there is, what it means, its limits.

``TrainingConfig`` has the options of all training; ``MarginConfig``, ``SoftmaxConfig`` and
``RgcnConfig`` add those of the three engines.  The option ``loss`` says which of them a config is.
"""

import difflib
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from bilink.errors import ConfigError


def option(
    default: Any, help: str, least: float = -math.inf, most: float = math.inf, above: bool = False
) -> Any:
    """A field with the sentence that ``bilink train --list-options`` prints, and its limits.

    With ``above``, the value is larger than ``least``.
    """
    limits = {"least": least, "most": most, "above": above}
    return field(default=default, metadata={"help": help, **limits})


@dataclass(frozen=True, kw_only=True)
class L2:
    """Weights λ of the penalty λ/2 ‖row‖², taken at each step on the rows it touches."""

    entity: float = option(0.0, "weight of the penalty on entities", 0)
    relation: float = option(0.0, "weight of the penalty on relations", 0)


@dataclass(frozen=True, kw_only=True)
class Regularization(L2):
    """Weights λ of a penalty, taken at each step on the rows it touches.

    "l2" is λ/2 ‖row‖², "n3" λ Σ|xₖ|³ (Lacroix et al., 2018); "dura" is λ‖entity‖² + λ‖query‖²
    (Zhang et al., 2020), where the weight of relations is that of the query.
    """

    kind: Literal["l2", "n3", "dura"] = option("l2", "the penalty")


@dataclass(frozen=True, kw_only=True)
class Dropout:
    """Probabilities that an entry of a row is left out when a query is made of it."""

    entity: float = option(0.0, "dropout of the given entity", 0, 0.999)
    relation: float = option(0.0, "dropout of the relation", 0, 0.999)


@dataclass(frozen=True, kw_only=True)
class MeanSquares:
    """Weights of a penalty on the mean square of the entries of a fact's rows."""

    entity: float = option(0.01, "weight of the penalty on entities", 0)
    relation: float = option(0.01, "weight of the penalty on relations", 0)


@dataclass(frozen=True, kw_only=True)
class EdgeDropout:
    """Probabilities that something is not heard in a step."""

    edges: float = option(0.4, "dropout of edges, each with its inverse", 0, 0.999)
    loops: float = option(0.2, "dropout of the entries of what an entity tells itself", 0, 0.999)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """What is needed to repeat a run, but for the model and the graph: options of all training."""

    epochs: int = option(200, "passes over the training triples", 1)
    seed: int = option(0, "seed of everything random", 0, 2**63)
    threads: int = option(0, "threads; 0 takes all cores, 1 is exactly repeatable", 0, 1024)
    learning_rate: float = option(0.1, "step size", 0, above=True)
    decay: float = option(1.0, "factor on the step size after each epoch", 0, 1, above=True)
    plateau: float = option(
        1.0, "factor on the step size after a validation without a better MRR", 0, 1, above=True
    )
    init: Literal["normal", "uniform", "xavier", "paper"] = option(
        "normal",
        "initial values: N(0, s²), U(−s, s), uniform by Glorot's rule times s, or those of the "
        "code of Wang et al. (2018)",
    )
    init_scale: float = option(0.1, "the s of the initial values", 0, above=True)
    start: str = option(
        "",
        "folder of a run to start from: of the same model, or for transh, transr, transg of transe",
    )
    validate_every: int = option(0, "epochs between validations; 0 makes about twenty of them", 0)
    validation_triples: int = option(1000, "size of the fixed validation sample; 0 for none", 0)
    patience: int = option(5, "stop after so many validations without a better MRR; 0 for never", 0)
    keep: Literal["best", "last"] = option(
        "best", "the model that a run ends with: the best on validation, or the last"
    )
    parts: int = option(
        1, "parts that the entities are dealt into; two of them are in memory at a time", 1, 256
    )
    minutes: float = option(0.0, "stop after so many minutes of training; 0 for never", 0)
    checkpoint_seconds: float = option(60.0, "least time between two checkpoints", 0)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def stops_early(self) -> bool:
        """Whether validations without a better MRR end the run."""
        return self.patience > 0

    @property
    def validation_period(self) -> int:
        """Epochs between two validations."""
        return self.validate_every or max(1, self.epochs // 20)

    def with_options(self, options: Mapping[str, Any]) -> "Config":
        """A copy with other values, keyed as in ``--set``: ``regularization.entity`` and so on.

        Another ``loss`` may ask for the other engine; what both engines have is then kept.
        """
        options = dict(flat(options))
        kind = _kind(options.get("loss", getattr(self, "loss", "margin")))
        base: Any = self
        if not isinstance(self, kind):
            common = {item.name: getattr(self, item.name) for item in fields(TrainingConfig)}
            base = kind(**common)
        if options.get("queries", "weighted") != "weighted":  # others come in no parts
            options = {"answers_per_query": 0, **options}
        return _with_options(base, options)

    def to_dict(self) -> dict[str, Any]:
        """As nested plain values, for TOML and JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class MarginConfig(TrainingConfig):
    """Margin training, a triple at a time: a positive should beat negatives by a margin."""

    loss: Literal["margin", "sigmoid-margin", "logistic"] = option(
        "margin", "hinge on the score, hinge on its sigmoid, logistic loss; or softmax"
    )
    margin: float = option(1.0, "by how much a positive should beat a negative", 0)
    negatives: int = option(1, "negatives for each positive and side", 1, 100_000)
    corrupt: Literal["random", "bernoulli", "both"] = option(
        "random", "side to corrupt: at random, by the relation's cardinality, or both"
    )
    plausible: float = option(
        0.0, "share of negatives drawn from entities seen in that position of the relation", 0, 1
    )
    filter_negatives: bool = option(True, "reject corruptions that are training triples")
    optimizer: Literal["adagrad", "sgd"] = option("adagrad", "how gradients become steps")
    epsilon: float = option(1e-24, "constant under the root of Adagrad", 0, above=True)
    steps: Literal["pair", "triple"] = option(
        "pair", "one step for a pair, or one for its positive and then one for its negative"
    )
    coordinates: Literal["training", "paper"] = option(
        "training",
        "what step size, penalty and initial values are stated for: the rows that are trained, or "
        "the parameters in the model's paper; they differ for HolE",
    )
    constraint: Literal["none", "ball", "sphere", "ball-all"] = option(
        "none",
        "keep entities anywhere, in the unit ball, on the unit sphere, or entities and relations "
        "in the unit ball",
    )
    regularization: L2 = field(default_factory=L2)


@dataclass(frozen=True, kw_only=True)
class SoftmaxConfig(TrainingConfig):
    """Softmax training in batches: cross-entropy over all entities or a shared sample of them."""

    loss: Literal["softmax"] = option("softmax", "cross-entropy; or a loss of margin training")
    negatives: int = option(0, "negatives that a batch shares; 0 for all entities", 0, 100_000)
    batch_size: int = option(1000, "queries in a batch", 1, 10**9)
    queries: Literal["per-fact", "distinct", "weighted"] = option(
        "per-fact",
        "query head and tail of each fact, or each distinct query once with all its answers, "
        "weighed alike or by their number",
    )
    answers_per_query: int = option(
        0, "weighted queries with more answers come in parts of so many; 0 for no limit", 0, 10**9
    )
    full_epochs: int = option(
        0,
        "epochs at the end in which all entities are candidates; patience does not cut them off",
        0,
    )
    distance: Literal["squared", "plain"] = option(
        "squared", "what the softmax sees of a distance; the ranking is the same"
    )
    rounding: float = option(
        0.0,
        "stochastic rounding of gradients: probabilities below it, such as 0.004, become it or 0 "
        "with the same mean, which saves two of three products; with a sample of negatives it "
        "takes effect from 5 / negatives on",
        0,
        1,
    )
    label_smoothing: float = option(0.0, "share of the target that goes to all entities", 0, 1)
    relation_prediction: float = option(
        0.0, "weight of the cross-entropy of the relation, given head and tail", 0
    )
    optimizer: Literal["adagrad", "sgd", "row-adagrad", "adam"] = option(
        "adagrad", "how gradients become steps"
    )
    regularization: Regularization = field(default_factory=Regularization)
    dropout: Dropout = field(default_factory=Dropout)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.negatives and self.label_smoothing:
            raise ConfigError(
                "label_smoothing goes with all entities as candidates; set negatives=0"
            )
        if self.answers_per_query and self.queries != "weighted":
            raise ConfigError(
                "answers_per_query goes with queries=weighted only; set answers_per_query=0"
            )
        if 0 < self.rounding < 1e-6:
            raise ConfigError(f"rounding must be 0 or at least 1e-06, not {self.rounding}")
        if self.rounding and self.label_smoothing:
            raise ConfigError("rounding does not go with label_smoothing; leave one of them out")
        if 0 < self.rounding * self.negatives < ROUNDING_PAYS and not self.full_epochs:
            raise ConfigError(
                f"with {self.negatives:,} negatives, rounding pays from "
                f"{ROUNDING_PAYS / self.negatives:g} on; make it larger, or leave it out"
            )
        if self.full_epochs and not self.negatives:
            raise ConfigError("full_epochs means nothing with negatives=0: all epochs are full")
        if self.full_epochs and self.minutes:
            raise ConfigError("minutes may end a run before its full_epochs; leave one of them out")

    @property
    def stops_early(self) -> bool:
        """Whether validations without a better MRR end the run; full epochs are never cut off."""
        return self.patience > 0 and not self.full_epochs


@dataclass(frozen=True, kw_only=True)
class RgcnConfig(TrainingConfig):
    """R-GCN: the entities of a DistMult are made by a graph convolution, which is trained."""

    loss: Literal["rgcn"] = option(
        "rgcn", "cross-entropy of facts and corrupted ones, behind a graph convolution; or another"
    )
    layers: int = option(1, "layers of the convolution", 1, 8)
    decomposition: Literal["basis", "block"] = option(
        "basis", "matrices of relations: a weighed sum of shared ones, or diagonal blocks"
    )
    bases: int = option(2, "matrices that all relations share", 1, 1000)
    blocks: int = option(5, "blocks of a relation's matrix", 1, 100_000)
    normalization: Literal["entity", "relation"] = option(
        "entity", "divide by the edges that reach an entity, or by those of the same relation"
    )
    negatives: int = option(1, "negatives for each fact, which together weigh as much", 1, 100_000)
    batch_size: int = option(
        0, "facts in a step, which passes the whole graph; 0 takes all facts", 0, 10**9
    )
    optimizer: Literal["adam", "adagrad"] = option("adam", "how gradients become steps")
    regularization: MeanSquares = field(default_factory=MeanSquares)
    dropout: EdgeDropout = field(default_factory=EdgeDropout)


Config = MarginConfig | SoftmaxConfig | RgcnConfig
CONFIGS = (MarginConfig, SoftmaxConfig, RgcnConfig)
_TRAININGS = {MarginConfig: "margin", SoftmaxConfig: "softmax", RgcnConfig: "R-GCN"}

# Candidates to each that may be kept, from which on rounding is faster than products.
ROUNDING_PAYS = 5

# The state of a run, or what its validations are compared by, depends on these.
FIXED_ONCE_STARTED = (
    *("seed", "optimizer", "coordinates", "init", "init_scale", "start", "parts"),
    *("layers", "decomposition", "bases", "blocks", "validation_triples"),
)

# What version 0.1.0 called some options, and those that it had for both engines.
_FORMER = {"questions": "queries", "together": "answers_per_query", "grain": "rounding"}
_GONE = ("device",)
_LARGEST = 2**63 + 1  # a number is smaller, so that arrays and files can hold it


def read_config(values: Mapping[str, Any]) -> Config:
    """The config in a file, also of version 0.1.0, which wrote the options of both engines."""
    options = {_FORMER.get(key, key): value for key, value in flat(values) if key not in _GONE}
    kind = _kind(options.get("loss", "margin"))
    other = MarginConfig if kind is SoftmaxConfig else SoftmaxConfig
    foreign: dict[str, str | None] = {key: value for key, value, _ in option_help(other())}
    foreign["batch_size"] = None
    own = {key for key, _, _ in option_help(kind())}
    for key in foreign.keys() & options.keys() - own:
        if foreign[key] in (None, str(options[key])):
            del options[key]
    return kind().with_options(options)


def option_help(config: TrainingConfig) -> list[tuple[str, str, str]]:
    """(key, value, meaning) of every option of a config."""
    return [(key, str(value), limits["help"]) for key, value, _, limits in _options(config)]


def _options(config: Any) -> Iterator[tuple[str, Any, Any, Mapping[str, Any]]]:
    """The key, the value, the type, and the help and limits of every option of a config."""
    hints = get_type_hints(type(config))
    for item in fields(config):
        value = getattr(config, item.name)
        if is_dataclass(value):
            for key, *rest in _options(value):
                yield f"{item.name}.{key}", *rest
        else:
            yield item.name, value, hints[item.name], item.metadata


def flat(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Keys as in ``--set``: ``{"dropout": {"entity": 0.1}}`` → ``dropout.entity``, 0.1."""
    for key, value in options.items():
        if key in ("regularization", "dropout") and isinstance(value, Mapping):
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


def belongs_to(key: str) -> set[type]:
    """The configs that know an option."""
    return {kind for kind in CONFIGS if key in {name for name, _, _ in option_help(kind())}}


def _kind(loss: Any) -> type[Config]:
    """The config that a loss belongs to."""
    losses = {name: kind for kind in CONFIGS for name in get_args(get_type_hints(kind)["loss"])}
    if loss not in losses:
        raise ConfigError(f"loss must be one of {', '.join(losses)}, not {loss!r}")
    return losses[loss]


def _with_options(config: Any, options: Mapping[str, Any]) -> Any:
    hints = {key: hint for key, _, hint, _ in _options(config)}
    changes: dict[str, Any] = {}
    for key, value in options.items():
        if key not in hints:
            raise _unknown(key, config)
        value = _coerce(key, value, hints[key])
        name, dot, inner = key.partition(".")
        group = changes.get(name, getattr(config, name))
        changes[name] = replace(group, **{inner: value}) if dot else value
    return replace(config, **changes)


def _unknown(key: str, config: Any) -> ConfigError:
    if known := [kind for kind in CONFIGS if kind in belongs_to(key)]:  # other engines
        kinds = " and ".join(_TRAININGS[kind] for kind in known)
        return ConfigError(
            f"{key} is an option of {kinds} training and does not go with the "
            f"{_TRAININGS[type(config)]} loss; leave it out"
        )
    names = sorted({name for kind in CONFIGS for name, _, _ in option_help(kind())})
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
        value = float(value) if abs(value) < _LARGEST else math.inf
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        word = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
        raise ConfigError(f"{key} must be {word[kind]}")
    return value


def _check(config: Any) -> None:
    """Complain about words that an option does not know, and about numbers beyond its limits."""
    for key, value, hint, limits in _options(config):
        if get_origin(hint) is Literal:
            if value not in get_args(hint):
                raise ConfigError(
                    f"{key} must be one of {', '.join(get_args(hint))}, not {value!r}"
                )
        elif hint in (int, float):
            least, most = limits["least"], limits["most"]
            if limits["above"] and not least < value < math.inf:  # also refuses NaN
                raise ConfigError(f"{key} must be positive and finite, not {value}")
            if not least <= value < math.inf:
                raise ConfigError(f"{key} must be at least {least} and finite, not {value}")
            if value > most:
                raise ConfigError(f"{key} must be at most {most:,}, not {value:,}")
            if hint is int and value >= _LARGEST:
                raise ConfigError(f"{key} must be smaller than {_LARGEST:,}")
