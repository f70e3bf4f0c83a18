"""A study with searched settings: for each model, those that are best on the validation split.

The space file (see docs/search.md) holds for all models and does not name them.  ``models`` selects
some by their letters; tables such as [R.fixed] and [R.space] change the space of one model:

    models = ["R", "H", "T"]
    [search]
    trials = 40
    [fixed]
    epochs = 300
    [space]
    margin = [0.2, 0.5, 1.0]
    [R.fixed]
    dim = 100

The winners are kept in OUT/wn18/searched/settings.toml; a model is searched again only when the
graph or the space has changed.
"""

import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from bilink.distributed import Executor
from bilink.errors import ConfigError
from bilink.search import Space, make_space, search
from study.wang2018 import (
    NAMES,
    RECIPES,
    SEARCHED,
    Hooks,
    Stopped,
    Study,
    has_settings,
    key_of,
    settings_of,
)

SETTINGS = "settings.toml"


def searched_study(
    data: str,
    spaces: Mapping[str, Space],
    *,
    out: Path,
    work: Path,
    hooks: Hooks | None = None,
    executor: Executor | None = None,
) -> Study:
    """A study with the best settings of each model, searched or read from an earlier search."""
    hooks = hooks or Hooks()
    study = Study(data, SEARCHED, out=out, work=work, hooks=hooks, settings={})
    found = read_kept(study.out)
    for letter, space in spaces.items():
        kept = found.get(letter, {})
        key = key_of({"graph": study.graph.fingerprint, "trials": space.wanted, **space.to_dict()})
        if kept.get("key") != key:
            hooks.say(f"{data}: searching {NAMES[letter]}, {space.wanted} trials")
            found[letter] = {"key": key, **_winner(study, letter, space, hooks, executor)}
            text = tomli_w.dumps(found)
            (study.out / SETTINGS).write_text(text, encoding="utf-8", newline="\n")
    chosen = {letter: found[letter]["settings"] for letter in spaces}
    return Study(data, SEARCHED, out=out, work=work, hooks=hooks, settings=chosen)


def kept_study(data: str, *, out: Path, work: Path, hooks: Hooks | None = None) -> Study | None:
    """The study with the settings of an earlier search, if there was one."""
    found = read_kept(out / data / SEARCHED)
    chosen = {letter: found[letter]["settings"] for letter in NAMES if letter in found}
    places: dict[str, Any] = {"out": out, "work": work, "hooks": hooks}
    return Study(data, SEARCHED, **places, settings=chosen) if chosen else None


def all_studies(data: str, *, out: Path, work: Path) -> list[Study]:
    """The studies of a graph by every recipe that has settings for it, for the tables."""
    places: dict[str, Any] = {"out": out, "work": work}
    studies = [Study(data, recipe, **places) for recipe in RECIPES if has_settings(data, recipe)]
    kept = kept_study(data, **places)
    return [*studies, kept] if kept else studies


def read_kept(folder: Path) -> dict[str, Any]:
    """The winners of earlier searches, by letter."""
    try:
        return tomllib.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _winner(
    study: Study, letter: str, space: Space, hooks: Hooks, executor: Executor | None
) -> dict[str, Any]:
    folder = study.work / "search" / f"{letter}-{key_of(space.to_dict())}"
    result = search(
        study.graph,
        space,
        folder,
        executor=executor,
        on_progress=lambda now: hooks.say(f"{NAMES[letter]}: {now.ended} of {now.wanted} trials"),
        should_stop=hooks.should_stop,
    )
    if result.run is None or result.best is None:
        raise Stopped
    results = study.out / letter
    results.mkdir(parents=True, exist_ok=True)
    for kind in ("json", "md"):
        shutil.copy(folder / f"report.{kind}", results / f"search.{kind}")
    if result.run.path is not None and not (study.work / letter).exists():
        shutil.copytree(result.run.path, study.work / letter)  # so it is not trained again
    best = result.best
    return {
        "settings": settings_of(result.run.config),
        "metric": space.metric,
        "value_on_valid": best.value,
        "trial": best.number,
    }


def read_spaces(path: str | Path) -> dict[str, Space]:
    """The space of each model, checked before the first trial."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no space file at {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    letters = data.pop("models", list(NAMES))
    if not isinstance(letters, list) or not letters or set(letters) - set(NAMES):
        raise ConfigError(f"{path}: models must be a list of some of {', '.join(NAMES)}")
    own = {letter: data.pop(letter, {}) for letter in NAMES}
    return {letter: _space(path, letter, data, own[letter]) for letter in _ordered(letters)}


def _ordered(letters: Sequence[str]) -> list[str]:
    return [letter for letter in NAMES if letter in letters]


def _space(path: str | Path, letter: str, common: Mapping[str, Any], own: Any) -> Space:
    """The common space with the changes of one model."""
    try:
        if not isinstance(own, Mapping) or set(own) - {"fixed", "space"}:
            raise ConfigError(f"[{letter}] has the tables {letter}.fixed and {letter}.space only")
        tables = {**common, "fixed": dict(common.get("fixed", {})), "space": {}}
        for part in (common, own):
            if "model" in {**part.get("fixed", {}), **part.get("space", {})}:
                raise ConfigError("the study chooses the model; take it out")
        tables["space"] = dict(common.get("space", {}))
        for name, other in (("fixed", "space"), ("space", "fixed")):
            for key, value in own.get(name, {}).items():
                tables[other].pop(key, None)
                tables[name][key] = value
        tables["fixed"]["model"] = NAMES[letter]
        return make_space(tables)
    except ConfigError as error:
        raise ConfigError(f"{path}, {NAMES[letter]}: {error}") from None
