"""The space file: what a search may choose from, checked before the first trial."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from bilink._documents import read_toml
from bilink.errors import ConfigError
from bilink.evaluation.metrics import METRICS
from bilink.models.registry import family
from bilink.training.config import Config, flat
from bilink.training.presets import choose, preset

METHODS = ("grid", "random", "tpe")
MOST_TRIALS = 1_000_000
LARGEST_GRID = 100_000
_LARGEST = 2**63  # a number in a range is smaller
_TABLES = ("search", "fixed", "space")
_SEARCH = ("method", "trials", "metric", "pruning", "seed")
_NEUTRAL = ("threads", "checkpoint_seconds")  # they change the speed of a trial, not its quality


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, on a logarithmic scale with ``log``, or in steps."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high", "step"):
            value = getattr(self, name)
            if name == "step" and value is None:
                continue
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise ConfigError(f"{name} must be a number, not {value!r}")
            if not -_LARGEST < value < _LARGEST:
                raise ConfigError(f"{name} must be finite, not {value}")
        if not isinstance(self.log, bool):
            raise ConfigError(f"log must be true or false, not {self.log!r}")
        if not self.low < self.high:
            raise ConfigError(f"the range from {self.low} to {self.high} is empty")
        if self.log and self.low <= 0:
            raise ConfigError(f"a logarithmic range must start above 0, not at {self.low}")
        if self.step is not None and (self.log or not 0 < self.step <= self.high - self.low):
            raise ConfigError("step must be positive, within the range, and not be used with log")

    @property
    def whole(self) -> bool:
        """Whether it is a range of integers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def to_dict(self) -> dict[str, Any]:
        """As it stands in a space file."""
        more = {"log": True} if self.log else {"step": self.step} if self.step else {}
        return {"low": self.low, "high": self.high, **more}


Choices = tuple[Any, ...] | Range


@dataclass(frozen=True, kw_only=True)
class Space:
    """What to choose from, how, and by which metric on the validation split."""

    method: str = "tpe"
    trials: int | None = None  # by default all of a grid, otherwise 20
    metric: str = "mrr"
    pruning: bool | None = None  # by default not for a grid, which is exhaustive, otherwise yes
    seed: int = 0
    fixed: Mapping[str, Any] = field(default_factory=dict)
    choices: Mapping[str, Choices] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, known in (("method", METHODS), ("metric", METRICS)):
            if getattr(self, name) not in known:
                given = getattr(self, name)
                raise ConfigError(f"{name} must be one of {', '.join(known)}, not {given!r}")
        _check_whole("seed", self.seed, 0, 2**32)
        if self.trials is not None:
            _check_whole("trials", self.trials, 1, MOST_TRIALS)
        if self.pruning is not None and not isinstance(self.pruning, bool):
            raise ConfigError(f"pruning must be true or false, not {self.pruning!r}")

    @property
    def size(self) -> float:
        """How many different settings there are."""
        sizes = [len(c) if isinstance(c, tuple) else math.inf for c in self.choices.values()]
        return math.prod(sizes)

    @property
    def wanted(self) -> int:
        """How many trials to make."""
        if self.method == "grid":
            return int(min(self.size, self.trials or self.size))
        return self.trials or 20

    @property
    def prunes(self) -> bool:
        """Whether trials that are worse than others are ended early."""
        return self.method != "grid" if self.pruning is None else self.pruning

    @property
    def maximise(self) -> bool:
        """Whether higher is better; only the mean rank should be low."""
        return self.metric != "mr"

    @property
    def threads(self) -> int | None:
        """Threads for each trial; None leaves them to the executor."""
        return self.fixed.get("threads") or None

    def settings(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a trial: what is fixed and what was chosen."""
        return {"model": "complex", "dim": 100, **self.fixed, **chosen}

    def to_dict(self) -> dict[str, Any]:
        """As the tables of a space file, without the number of trials."""
        plain = {
            key: list(c) if isinstance(c, tuple) else c.to_dict() for key, c in self.choices.items()
        }
        search = {"method": self.method, "metric": self.metric, "seed": self.seed}
        search["pruning"] = self.prunes
        return {"search": search, "fixed": dict(self.fixed), "space": plain}


def split_settings(settings: Mapping[str, Any]) -> tuple[str, int, dict[str, Any]]:
    """(model, dim, training options) of a trial's settings."""
    options = dict(settings)
    return options.pop("model"), options.pop("dim"), options


def training_of(settings: Mapping[str, Any]) -> Config:
    """The training options of a trial, with the model's defaults for what is not given."""
    model, _, options = split_settings(settings)
    return preset(preset_of(settings), model).with_options(options)


def preset_of(settings: Mapping[str, Any]) -> str:
    """The preset that a trial starts from; it does not depend on the graph."""
    model, dim, options = split_settings(settings)
    return choose(model, dim, None, options)


def read_space(path: str | Path, **changes: Any) -> Space:
    """Read and check a space file; ``changes`` replace values of its [search] table."""
    path = Path(path)
    if not path.exists():
        raise ConfigError(f"there is no space file at {path}")
    data = read_toml(path, dict[str, Any], ConfigError)
    try:
        return make_space(data, **changes)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def make_space(data: Mapping[str, Any], **changes: Any) -> Space:
    """A space from the tables of a space file; ``changes`` replace values of [search]."""
    if unknown := next((table for table in data if table not in _TABLES), None):
        names = ", ".join(f"[{name}]" for name in _TABLES)
        raise ConfigError(f"unknown part {unknown!r}; there are {names}")
    tables = {name: data.get(name, {}) for name in _TABLES}
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise ConfigError(f"{name} must be a table, [{name}]")
    search = {**tables["search"], **{k: value for k, value in changes.items() if value is not None}}
    if unknown := next((key for key in search if key not in _SEARCH), None):
        raise ConfigError(f"[search] has no {unknown!r}; there are {', '.join(_SEARCH)}")
    fixed, free = dict(flat(tables["fixed"])), dict(flat(tables["space"]))
    if not free:
        raise ConfigError("[space] is empty; give it something to choose from")
    for key in free:
        if key in fixed:
            raise ConfigError(f"{key} stands in [fixed] and in [space]; keep one")
        if key in _NEUTRAL:
            raise ConfigError(f"[space] {key} changes speed, not quality; put it under [fixed]")
    choices = {key: _in_table("space", key, _choices, given) for key, given in free.items()}
    return _checked(Space(**search, fixed=fixed, choices=choices))


def _choices(key: str, given: Any) -> Choices:
    if isinstance(given, Mapping):
        if unknown := set(given) - {"low", "high", "log", "step"}:
            raise ConfigError(
                f"a range has low, high, log and step, not {sorted(map(str, unknown))[0]!r}"
            )
        if not {"low", "high"} <= set(given):
            raise ConfigError("a range needs low and high")
        return Range(**given)
    if not isinstance(given, list):
        raise ConfigError(f"expected a list or {{low, high}}; put one value, {given!r}, in [fixed]")
    if not given:
        raise ConfigError("the list is empty")
    return tuple(given)


def _checked(space: Space) -> Space:
    """The space with each value checked for each model, and in the type of its option."""
    if space.method == "grid":
        for key, given in space.choices.items():
            if isinstance(given, Range):
                raise ConfigError(f"[space] {key} is a range; a grid needs a list of values")
    names = space.choices.get("model", (space.settings({})["model"],))
    if isinstance(names, Range):
        raise ConfigError("[space] model must be a list of names")
    table = "space" if "model" in space.choices else "fixed"
    fixed, choices = dict(space.fixed), dict(space.choices)
    for model in [_in_table(table, "model", _value, name) for name in names]:
        for key, value in space.fixed.items():
            fixed[key] = _in_table("fixed", key, _value, value, model)
        for key, given in space.choices.items():
            choices[key] = _in_table("space", key, _values, given, model)
    if space.method == "grid" and space.size > LARGEST_GRID:
        raise ConfigError(
            f"the grid has {space.size:,} points, more than {LARGEST_GRID:,}; shorten its lists, "
            "or use method = 'random'"
        )
    return replace(space, fixed=fixed, choices=choices)


def _values(key: str, given: Choices, model: str) -> Choices:
    if isinstance(given, tuple):
        values = tuple(_value(key, value, model) for value in given)
        for i, value in enumerate(values):
            if value in values[:i]:
                raise ConfigError(f"{value!r} stands in the list twice")
        return values
    low, high = _value(key, given.low, model), _value(key, given.high, model)
    step = given.step
    if isinstance(low, str | bool):
        raise ConfigError("a range is for numbers; give a list")
    if isinstance(low, int) and step is not None:
        if step != int(step):
            raise ConfigError(f"the step of a whole number must be one, not {step}")
        step = int(step)
    return Range(low, high, given.log, step)


def _value(key: str, value: Any, model: str = "") -> Any:
    """``value`` in the type of the option ``key`` of ``model``, checked."""
    if isinstance(value, list | Mapping):
        raise ConfigError(f"expected one value, not {value!r}")
    if key == "model":
        if not isinstance(value, str):
            raise ConfigError(f"a model has a name, {value!r} is none")
        return family(value).name
    if key == "dim":
        _check_whole("dim", value, 1, 1_000_000)
        return value
    name = choose(model, 1, None, {key: value})
    return attrgetter(key)(preset(name, model).with_options({key: value}))


def _check_whole(name: str, value: Any, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise ConfigError(
            f"{name} must be a whole number from {least:,} to {most:,}, not {value!r}"
        )


def _in_table(table: str, key: str, check: Any, *arguments: Any) -> Any:
    """``check(key, …)``, with the table and the key in the message of an error."""
    try:
        return check(key, *arguments)
    except ConfigError as error:
        text = str(error)
        where = f"[{table}]" if text.startswith(("unknown option", key)) else f"[{table}] {key}:"
        raise ConfigError(f"{where} {text}") from None
