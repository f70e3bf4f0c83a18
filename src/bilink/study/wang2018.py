"""The study of Wang, Gemulla and Li (2018): their models, ensembles and tables, and ours beside.

A study is made of pieces: a trained model, or an ensemble of some, each with what was measured on
it.  A piece is done again only when what determines it has changed, so that a study that was
stopped goes on where it was.

    WORK/wn18/improved/H/                 a run folder, with the model
    OUT/wn18/improved/H/                  config.toml, history.jsonl, metrics.json: what is kept
    OUT/wn18/improved/R+H+T (stack)/      metrics.json
    OUT/wn18/tables.md                    the published and our figures side by side
"""

import hashlib
import json
import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import bilink
from bilink._files import write_text
from bilink.data.graph import Graph
from bilink.data.loading import load_graph
from bilink.ensembles.fitting import EnsembleConfig
from bilink.errors import ConfigError, RunError
from bilink.evaluation.entity_ranking import VALIDATION_FILTER, EntityRanking
from bilink.evaluation.significance import paired_test
from bilink.models.registry import family
from bilink.runs.combined import combine
from bilink.runs.folder import RunConfig, RunFolder, read_config_file
from bilink.runs.job import Job, OnEpoch, ShouldStop, prepare
from bilink.runs.run import Run
from bilink.runs.trained import TrainedRun
from bilink.training.config import TrainingConfig
from bilink.training.loop import INTERRUPTED
from bilink.training.presets import preset

NAMES = {"R": "RESCAL", "H": "HolE", "T": "TransE", "D": "DistMult", "C": "ComplEx"}
PAPERS = ("R", "H", "T")  # the models of the paper
RECIPES = ("paper", "improved")
SEARCHED = "searched"  # the recipe whose settings a search finds; see searching.py
METHODS = ("stack", "paper")  # of every combination
BASELINES = ("best", "average", "platt")  # of all the paper's models together only
PLAIN = "paper"  # the preset below all settings: what others are given by default may change
LIKE = {"wn18rr": "wn18"}  # settings that were tuned on another graph


class Stopped(Exception):
    """The user asked to stop; what is done is kept."""


@dataclass(frozen=True)
class Hooks:
    """Who is told what happens, and who may stop it."""

    say: Callable[[str], None] = lambda text: None
    on_epoch: Callable[[int], Any] | None = None  # epochs → a context that gives OnEpoch
    should_stop: ShouldStop = lambda: False


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
        self._rankings: dict[str, EntityRanking] = {}

    @cached_property
    def graph(self) -> Graph:
        """The graph of the study."""
        return load_graph(self.data)

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

    def model(self, letter: str) -> TrainedRun:
        """The trained run of one model: read, gone on with, or made."""
        job, path = self._job(letter), self.work / letter
        if not RunFolder(path).is_finished:
            self._hooks.say(f"{self.data}, {self.recipe}: training {NAMES[letter]}")
        with self._epochs(job.config.training.epochs) as on_epoch:
            stop = self._hooks.should_stop
            run = job.run_or_read(path, on_epoch=on_epoch, should_stop=stop)
        if run.stopped == INTERRUPTED:
            raise Stopped
        return run

    def _job(self, letter: str) -> Job:
        options = dict(self.settings[letter])
        model, dim = options.pop("model"), options.pop("dim")
        return prepare(self.graph, model, dim, options, preset=PLAIN)

    def is_current(self, letter: str) -> bool:
        """Whether what is kept of a model has the settings of now; the graph is not looked at."""
        options = dict(self.settings[letter])
        model, dim = family(options.pop("model")).name, options.pop("dim")
        training = preset(PLAIN, model).with_options(options)
        try:
            found = read_config_file(self.out / letter / "config.toml")
        except RunError:
            return False
        return settings_of(found) == settings_of(
            replace(found, model=model, dim=dim, training=training)
        )

    def _determined_by(self, letters: Sequence[str]) -> dict[str, Any]:
        """The graph and the settings of each model."""
        models = {letter: settings_of(self._job(letter).config) for letter in letters}
        return {"graph": self.graph.fingerprint, "models": models}

    def _epochs(self, epochs: int) -> Any:
        nothing: OnEpoch | None = None
        return self._hooks.on_epoch(epochs) if self._hooks.on_epoch else nullcontext(nothing)

    def measure_model(self, letter: str) -> None:
        """Train a model and measure it, unless that is done."""
        if self.is_done(letter):
            return
        run = self.model(letter)
        found = self._measure(letter, run)
        found["minutes_of_training"] = sum(r["seconds"] for r in run.history) / 60
        found["stopped"] = f"after {len(run.history)} epochs"
        place = self.out / letter
        place.mkdir(parents=True, exist_ok=True)
        for name in ("config.toml", "history.jsonl"):
            shutil.copy(self.work / letter / name, place / name)
        self._keep(letter, key_of(self._determined_by([letter])), found)

    def is_done(self, letter: str) -> bool:
        """Whether a model with these settings was measured on this graph."""
        return self._done(letter, key_of(self._determined_by([letter])))

    # -- ensembles -------------------------------------------------------------------------------

    def measure_ensemble(self, members: Sequence[str], method: str) -> None:
        """Combine models and measure the ensemble, unless that is done."""
        name = f"{'+'.join(members)} ({method})"
        config = EnsembleConfig(method=method)  # type: ignore[arg-type]
        key = key_of({**self._determined_by(members), **config.to_dict()})
        if self._done(name, key):
            return
        if self._hooks.should_stop():
            raise Stopped
        self._hooks.say(f"{self.data}, {self.recipe}: {name}")
        runs = {letter: self.model(letter) for letter in members}
        made = combine(list(runs.values()), **config.to_dict())
        found = self._measure(name, made)
        found["ensemble"] = config.to_dict()
        rivals: dict[str, Run] = dict(runs)
        if method == "stack":
            rivals[f"{'+'.join(members)} (average)"] = combine(
                list(runs.values()), method="average"
            )
        ranking = self._ranking(name, made)
        found["against"] = {
            rival: asdict(paired_test(ranking, self._ranking(rival, run)))
            for rival, run in rivals.items()
        }
        self._keep(name, key, found)

    # -- measuring -------------------------------------------------------------------------------

    def _ranking(self, name: str, run: Run) -> EntityRanking:
        if name not in self._rankings:
            self._rankings[name] = run.evaluate("test")
        return self._rankings[name]

    def _measure(self, name: str, run: Run) -> dict[str, Any]:
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
        """What is kept of a piece; nothing where it is not done."""
        try:
            found = json.loads((self.out / name / "metrics.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _keep(self, name: str, key: str, found: Mapping[str, Any]) -> None:
        place = self.out / name
        place.mkdir(parents=True, exist_ok=True)
        head = {"key": key, "command": self._command, "bilink": bilink.__version__}
        text = json.dumps({**head, **found}, indent=1)
        write_text(place / "metrics.json", text + "\n")


def settings_of(config: RunConfig) -> dict[str, Any]:
    """Model, size, and the options that are not as ever.

    So an option that is new to bilink, at its default, does not make old pieces void.
    """
    usual, training = TrainingConfig().to_dict(), config.training.to_dict()
    unusual = {name: value for name, value in training.items() if value != usual[name]}
    return {"model": config.model, "dim": config.dim, **unusual}


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
    """The studies of a graph by those of ``recipes`` that know it; the paper did not study all."""
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
    """A data file of this room."""
    return tomllib.loads(files("bilink.study").joinpath(name).read_text(encoding="utf-8"))


def key_of(determined_by: Mapping[str, Any]) -> str:
    """A hash of all that determines a piece."""
    text = json.dumps({**determined_by, "bilink": bilink.__version__}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_relations(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name != "relations"}
