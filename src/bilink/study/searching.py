"""A study whose settings are searched: for each of its models, the best on the validation split.

The file is a space file (see docs/search.md) that holds for all models, and does not name them;
``models`` chooses some by their letters, and [R.fixed], [R.space] and so on add to it or change it:

    models = ["R", "H", "T"]
    [search]
    trials = 40
    [fixed]
    epochs = 300
    [space]
    margin = [0.2, 0.5, 1.0]
    [R.fixed]
    dim = 100

The winners are kept in OUT/wn18/searched/settings.toml, and are searched anew only where the graph
or the space has changed.
"""

import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from bilink._files import write_text
from bilink.distributed.executor import Executor
from bilink.errors import ConfigError
from bilink.models.registry import family
from bilink.search.space import Space, make_space
from bilink.study.wang2018 import (
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
    """Search for the settings of each model, or read those that are kept; then a study of them."""
    hooks = hooks or Hooks()
    study = Study(data, SEARCHED, out=out, work=work, hooks=hooks, settings={})
    found = read_kept(study.out)
    for letter, space in spaces.items():
        kept = found.get(letter, {})
        wish = {"graph": study.graph.fingerprint, "trials": space.wanted, **space.to_dict()}
        if kept.get("key") != key_of(wish):
            hooks.say(f"{data}: searching {NAMES[letter]}, {space.wanted} trials")
            found[letter] = {"key": key_of(wish), **_winner(study, letter, space, hooks, executor)}
            write_text(study.out / SETTINGS, tomli_w.dumps(found))
    chosen = {letter: found[letter]["settings"] for letter in spaces}
    return Study(data, SEARCHED, out=out, work=work, hooks=hooks, settings=chosen)


def kept_study(data: str, *, out: Path, work: Path, hooks: Hooks | None = None) -> Study | None:
    """The study of the settings that were searched before, if there are any."""
    found = read_kept(out / data / SEARCHED)
    chosen = {letter: found[letter]["settings"] for letter in NAMES if letter in found}
    places: dict[str, Any] = {"out": out, "work": work, "hooks": hooks}
    return Study(data, SEARCHED, **places, settings=chosen) if chosen else None


def all_studies(data: str, *, out: Path, work: Path) -> list[Study]:
    """The studies of a graph by every recipe that knows it, for the tables."""
    places: dict[str, Any] = {"out": out, "work": work}
    studies = [Study(data, recipe, **places) for recipe in RECIPES if has_settings(data, recipe)]
    kept = kept_study(data, **places)
    return [*studies, kept] if kept else studies


def read_kept(folder: Path) -> dict[str, Any]:
    """What is kept of the winners, by letter."""
    try:
        return tomllib.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _winner(
    study: Study, letter: str, space: Space, hooks: Hooks, executor: Executor | None
) -> dict[str, Any]:
    from bilink.search import search

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
    place = study.out / letter
    place.mkdir(parents=True, exist_ok=True)
    for kind in ("json", "md"):
        shutil.copy(folder / f"report.{kind}", place / f"search.{kind}")
    if result.run.path is not None and not (study.work / letter).exists():
        shutil.copytree(result.run.path, study.work / letter)  # it need not be trained once more
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
    """What stands in the letter's own tables takes the place of what all share."""
    try:
        if not isinstance(own, Mapping) or set(own) - {"fixed", "space"}:
            raise ConfigError(f"[{letter}] has the tables {letter}.fixed and {letter}.space only")
        tables = {**common, "fixed": dict(common.get("fixed", {})), "space": {}}
        for part in (common, own):
            if "model" in {**part.get("fixed", {}), **part.get("space", {})}:
                raise ConfigError("the study says which model it is; take it out")
        tables["space"] = dict(common.get("space", {}))
        for name, other in (("fixed", "space"), ("space", "fixed")):
            for key, value in own.get(name, {}).items():
                tables[other].pop(key, None)
                tables[name][key] = value
        tables["fixed"]["model"] = family(NAMES[letter]).name
        return make_space(tables)
    except ConfigError as error:
        raise ConfigError(f"{path}, {NAMES[letter]}: {error}") from None
