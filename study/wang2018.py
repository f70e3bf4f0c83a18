"""The study of Wang, Gemulla and Li (2018): their models, ensembles and tables, beside ours.

A study consists of pieces: a trained model, or an ensemble of models, with its results.  A piece is
made again only when its settings or its graph have changed, so a study that was interrupted goes on
where it was.

    WORK/wn18/improved/H/                 a run folder, with the model
    OUT/wn18/improved/H/                  config.toml, history.jsonl, metrics.json
    OUT/wn18/improved/R+H+T (stack)/      metrics.json
    OUT/wn18/tables.md                    published figures and ours, side by side
"""

import hashlib
import json
import shutil
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import bilink
from bilink.ensembles import EnsembleConfig
from bilink.errors import ConfigError, RunError
from bilink.models import family
from bilink.runs import Job, RunConfig, RunFolder, TrainedRun
from bilink.runs.paths import PathRun, split_options, train_paths
from bilink.training import Config, MarginConfig, preset

NAMES = {
    "R": "RESCAL",
    "H": "HolE",
    "T": "TransE",
    "D": "DistMult",
    "C": "ComplEx",
    "P": "paths",
}
PAPERS = ("R", "H", "T")  # the models of the paper
RECIPES = ("paper", "improved")
SEARCHED = "searched"  # the recipe whose settings a search finds; see searching.py
METHODS = ("stack", "paper")  # for every combination
BASELINES = ("best", "average", "platt")  # only for the ensemble of all models of the paper
LIKE = {"wn18rr": "wn18"}  # graphs that have the settings of another graph
VALIDATION_FILTER = ("train", "valid")  # test triples must not help to choose settings


class Stopped(Exception):
    """The user asked to stop; finished pieces are kept."""


@dataclass(frozen=True)
class Hooks:
    """Callbacks of a study."""

    say: Callable[[str], None] = lambda text: None
    on_epoch: Callable[[int], Any] | None = None  # epochs → a context with the callback of epochs
    should_stop: Callable[[], bool] = lambda: False


class Study:
    """All pieces of one graph and recipe."""

    def __init__(
        self,
        data: str,
        recipe: str,
        *,
        out: Path,
        work: Path,
        hooks: Hooks | None = None,
        settings: Mapping[str, dict[str, Any]] | None = None,
        command: str = "",
    ):
        self.data, self.recipe, self._hooks = data, recipe, hooks or Hooks()
        how = "--search SPACE.toml" if recipe == SEARCHED else f"--recipe {recipe}"
        self._command = command or f"bilink study wang2018 --data {data} {how}"
        self.settings = recorded_settings(data, recipe) if settings is None else settings
        self.out, self.work = out / data / recipe, work / data / recipe
        self._rankings: dict[str, Any] = {}

    @cached_property
    def graph(self) -> bilink.Graph:
        """The graph of the study."""
        return bilink.load_graph(self.data)

    def run(self) -> None:
        """Train, combine and measure whatever is missing."""
        letters = list(self.settings)
        for letter in letters:
            self.measure_model(letter)
        own = [letter for letter in PAPERS if letter in letters]
        for members in combos(letters):
            for method in (*METHODS, *(BASELINES if list(members) == own else ())):
                self.measure_ensemble(members, method)

    # -- models ----------------------------------------------------------------------------------

    def model(self, letter: str) -> TrainedRun | PathRun:
        """The trained run of one model: read, resumed or trained."""
        if is_paths(self.settings[letter]):
            return self._paths(letter)
        job, path = self._job(letter), self.work / letter
        if not (path / "model.safetensors").exists():
            self._hooks.say(f"{self.data}, {self.recipe}: training {NAMES[letter]}")
        with self._epochs(job.config.training.epochs) as on_epoch:
            stop = self._hooks.should_stop
            run = job.run_or_read(path, on_epoch=on_epoch, should_stop=stop)
        if run.stopped == "interrupted":
            raise Stopped
        return run

    def _paths(self, letter: str) -> PathRun:
        """The rules of the graph, read or mined."""
        path, options = self.work / letter, path_options(self.settings[letter])
        if (path / "model.safetensors").exists():
            run = bilink.load(path)
            if isinstance(run, PathRun) and run.config.mining == split_options(options)[0]:
                return run
        self._hooks.say(f"{self.data}, {self.recipe}: counting paths")
        return train_paths(self.graph, options, out=path, force=True, source={"source": self.data})

    def _identity(self, letter: str) -> dict[str, Any]:
        """What determines a model."""
        if is_paths(self.settings[letter]):
            return {"model": "paths", **path_options(self.settings[letter])}
        return identity_of(self._job(letter).config)

    def _job(self, letter: str) -> Job:
        settings = self.settings[letter]
        config = RunConfig(
            data={"source": self.graph.name},
            fingerprint=self.graph.fingerprint,
            model=family(settings["model"]).name,
            dim=settings["dim"],
            training=self._training(letter),
        )
        return Job(self.graph, config)

    def _training(self, letter: str) -> Config:
        """The settings over those of the authors, or over plain ones: presets may change."""
        settings = self.settings[letter]
        base = preset("paper", settings["model"]) if self.recipe == "paper" else MarginConfig()
        options = {key: value for key, value in settings.items() if key not in ("model", "dim")}
        return base.with_options(options)

    def is_current(self, letter: str) -> bool:
        """Whether the results of a model are of its present settings; the graph is not compared."""
        if is_paths(self.settings[letter]):
            return self.read(letter).get("options") == path_options(self.settings[letter])
        model, dim = (self.settings[letter][name] for name in ("model", "dim"))
        try:
            found = RunFolder(self.out / letter).read_config()
        except RunError:
            return False
        now = replace(found, model=model, dim=dim, training=self._training(letter))
        return identity_of(found) == identity_of(now)

    def _determined_by(self, letters: Sequence[str]) -> dict[str, Any]:
        """The graph and the settings of each model."""
        models = {letter: self._identity(letter) for letter in letters}
        return {"graph": self.graph.fingerprint, "models": models}

    def _epochs(self, epochs: int) -> Any:
        return self._hooks.on_epoch(epochs) if self._hooks.on_epoch else nullcontext()

    def measure_model(self, letter: str) -> None:
        """Train and measure a model, unless that is done."""
        if self.is_done(letter):
            return
        started = time.perf_counter()
        run = self.model(letter)
        seconds = time.perf_counter() - started
        found = self._measure(letter, run)
        folder = self.out / letter
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.work / letter / "config.toml", folder / "config.toml")
        if isinstance(run, PathRun):
            found["minutes_of_training"] = seconds / 60
            found["options"] = path_options(self.settings[letter])
        else:
            found["minutes_of_training"] = sum(r["seconds"] for r in run.history) / 60
            found["stopped"] = f"after {len(run.history)} epochs"
            shutil.copy(self.work / letter / "history.jsonl", folder / "history.jsonl")
        self._keep(letter, key_of(self._determined_by([letter])), found)

    def is_done(self, letter: str) -> bool:
        """Whether a model with these settings was measured on this graph."""
        return self._done(letter, key_of(self._determined_by([letter])))

    # -- ensembles -------------------------------------------------------------------------------

    def measure_ensemble(self, members: Sequence[str], method: str) -> None:
        """Fit and measure an ensemble, unless that is done.

        One with paths is also compared with the one without.
        """
        name = f"{'+'.join(members)} ({method})"
        config = self._ensemble(method)
        options = config.to_dict()
        if method != "paper" or not config.corruptions:
            del options["corruptions"]  # which came later; keys stay
        if config.objective == "likelihood" or method != "stack":
            del options["objective"]  # likewise
        key = key_of({**self._determined_by(members), **options})
        if self._done(name, key):
            return
        if self._hooks.should_stop():
            raise Stopped
        self._hooks.say(f"{self.data}, {self.recipe}: {name}")
        runs = {letter: self.model(letter) for letter in members}
        made = bilink.combine(list(runs.values()), **config.to_dict())
        found = self._measure(name, made)
        found["ensemble"] = config.to_dict()
        others: dict[str, bilink.Run] = dict(runs)
        if method == "stack":
            average = bilink.combine(list(runs.values()), method="average")
            others[f"{'+'.join(members)} (average)"] = average
            plain = [letter for letter in members if not is_paths(self.settings[letter])]
            if 1 < len(plain) < len(members):
                without = bilink.combine([runs[letter] for letter in plain], method=method)
                others[f"{'+'.join(plain)} ({method})"] = without
        ranking = self._ranking(name, made)
        found["against"] = {
            other: asdict(bilink.paired_test(ranking, self._ranking(other, run)))
            for other, run in others.items()
        }
        self._keep(name, key, found)

    def _ensemble(self, method: Any) -> EnsembleConfig:
        """The authors' examples for their own recipe, those that the paper describes elsewhere."""
        if method == "paper" and self.recipe != "paper":
            return EnsembleConfig(method=method, corruptions=0)
        if method == "stack":  # as all figures were made, before there were weights for ranks
            return EnsembleConfig(method=method, objective="likelihood")
        return EnsembleConfig(method=method)

    # -- measuring -------------------------------------------------------------------------------

    def _ranking(self, name: str, run: bilink.Run) -> Any:
        if name not in self._rankings:
            self._rankings[name] = run.evaluate("test")
        return self._rankings[name]

    def _measure(self, name: str, run: bilink.Run) -> dict[str, Any]:
        return {
            "valid": run.evaluate("valid", filter=VALIDATION_FILTER).to_dict(),
            "test": self._ranking(name, run).to_dict(),
            "classification": _without_relations(run.classify("test").to_dict()),
            "classification_any_entity": _without_relations(
                run.classify("test", plausible=False).to_dict()
            ),
        }

    def _done(self, name: str, key: str) -> bool:
        return self.read(name).get("key") == key

    def read(self, name: str) -> dict[str, Any]:
        """The results of a piece; empty if it is not done, or was only half written."""
        try:
            found = json.loads((self.out / name / "metrics.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _keep(self, name: str, key: str, found: Mapping[str, Any]) -> None:
        folder = self.out / name
        folder.mkdir(parents=True, exist_ok=True)
        head = {"key": key, "command": self._command, "bilink": bilink.__version__}
        text = json.dumps({**head, **found}, indent=1)
        (folder / "metrics.json").write_text(text + "\n", encoding="utf-8", newline="\n")


def is_paths(settings: Mapping[str, Any]) -> bool:
    """Whether these are the settings of paths, which are counted and not trained."""
    return settings["model"] == "paths"


def path_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The options of paths among their settings."""
    return {name: value for name, value in settings.items() if name != "model"}


def settings_of(config: RunConfig) -> dict[str, Any]:
    """The settings of a study that give this config: what differs from the defaults of its loss."""
    training = config.training.to_dict()
    defaults = type(config.training)().to_dict()
    changed = {name: value for name, value in training.items() if value != defaults[name]}
    return {"model": config.model, "dim": config.dim, "loss": training["loss"], **changed}


def identity_of(config: RunConfig) -> dict[str, Any]:
    """What determines a model: model, dim, and the options that differ from their defaults.

    So an option that is added to bilink does not invalidate the pieces made before.
    """
    training = config.training.to_dict()
    defaults = type(config.training)().to_dict()
    defaults |= {"loss": "margin", "negatives": 1}  # as in version 0.1.0, so that keys stay
    changed = {name: value for name, value in training.items() if value != defaults[name]}
    if "regularization" in changed:
        changed["regularization"] = {"kind": "l2", **training["regularization"]}
    return {"model": config.model, "dim": config.dim, **changed}


def combos(letters: Sequence[str]) -> list[tuple[str, ...]]:
    """The combinations of the paper's models in the order of its tables, then all models."""
    own = [letter for letter in PAPERS if letter in letters]
    order = ["R+T", "R+H", "H+T"]
    found: list[tuple[str, ...]] = sorted(
        combinations(own, 2), key=lambda pair: order.index("+".join(pair))
    )
    everything = tuple(letter for letter in NAMES if letter in letters)
    for group in (tuple(own), everything):
        if len(group) > 2 and group not in found:
            found.append(group)
    return found


def studies_of(data: str, recipes: Sequence[str], **places: Any) -> list[Study]:
    """The studies of a graph by those of ``recipes`` that have settings for it."""
    known = [recipe for recipe in recipes if has_settings(data, recipe)]
    return [Study(data, recipe, **places) for recipe in known or recipes]


def has_settings(data: str, recipe: str) -> bool:
    """Whether a recipe has settings for a graph."""
    try:
        return bool(recorded_settings(data, recipe))
    except ConfigError:
        if recipe not in RECIPES:
            raise
        return False


def recorded_settings(data: str, recipe: str) -> dict[str, dict[str, Any]]:
    """For each model of a recipe, its options."""
    if recipe not in RECIPES:
        raise ConfigError(f"unknown recipe {recipe!r}; there are {', '.join(RECIPES)}")
    found = read_toml("settings.toml")[recipe]
    graphs = {key for key, value in found.items() if isinstance(value, dict)}
    name = data if data in graphs or recipe == "paper" else LIKE.get(data, data)
    if name not in graphs:
        raise ConfigError(
            f"the recipe {recipe!r} has no settings for {data!r}; it has them for "
            f"{', '.join(sorted(graphs))}"
        )
    shared = {key: value for key, value in found.items() if not isinstance(value, dict)}
    return {letter: {**shared, **options} for letter, options in found[name].items()}


def published() -> dict[str, Any]:
    """The figures of the paper."""
    return read_toml("published.toml")["wang2018"]


def read_toml(name: str) -> dict[str, Any]:
    """A data file of this folder."""
    return tomllib.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))


def key_of(determined_by: Mapping[str, Any]) -> str:
    """A hash of everything that determines a piece, with the names that options once had."""
    named = _formerly({**determined_by, "bilink": bilink.__version__})
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:16]


_FORMER = {
    "queries": "questions",
    "answers_per_query": "together",
    "rounding": "grain",
    "random_negatives": "random_rivals",
    "hard_negatives": "hard_rivals",
}


def _formerly(value: Any) -> Any:
    """The same with the option names of version 0.1.0, so that pieces made by it stay valid."""
    if isinstance(value, Mapping):
        return {_FORMER.get(key, key): _formerly(item) for key, item in value.items()}
    return value


def _without_relations(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name != "relations"}
