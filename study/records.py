"""The records: softmax training at small sizes, its ensemble, and published figures beside ours.

OUT/fb15k/softmax/C/                config.toml, history.jsonl, metrics.json
OUT/fb15k/softmax/R+T+C (stack)/    metrics.json
OUT/fb15k/leaderboard.png           quality against minutes
OUT/leaderboard.md                  ours and others on all graphs, best first
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import bilink
from bilink.errors import ConfigError
from study.wang2018 import NAMES, Hooks, Study, is_paths, read_toml

RECIPE = "softmax"
METHOD = "stack"  # of the ensemble
_COLOURS = {
    "C": "#1f6f8b",
    "D": "#5b8c5a",
    "H": "#8e6c8a",
    "R": "#d1603d",
    "T": "#c9a227",
    "P": "#b0413e",
}
_ENSEMBLE = "#222222"


def record_study(data: str, *, out: Path, work: Path, hooks: Hooks | None = None) -> Study:
    """The study of one graph, with the settings of ``records.toml``."""
    return Study(
        data,
        RECIPE,
        out=out,
        work=work,
        hooks=hooks,
        settings=record_settings(data),
        command=f"bilink study records --data {data}",
    )


def all_records(*, out: Path, work: Path) -> list[Study]:
    """The studies of all graphs that have settings."""
    graphs = [name for name in read_toml("records.toml") if name != "shared"]
    return [record_study(name, out=out, work=work) for name in graphs]


def record_settings(data: str) -> dict[str, dict[str, Any]]:
    """The options of each model of a graph."""
    found = read_toml("records.toml")
    shared = found.pop("shared")
    if data not in found:
        raise ConfigError(f"there are no settings for {data!r}, but for {', '.join(sorted(found))}")
    return {
        letter: options if is_paths(options) else {**shared, **options}
        for letter, options in found[data].items()
    }


def run_records(study: Study, letters: Sequence[str] | None = None) -> None:
    """Train and measure the models, or some of them, and the ensemble of all that are done.

    A model that was trained with other settings is not a member: it would have to be trained again.
    """
    unknown = [letter for letter in letters or () if letter not in study.settings]
    if unknown:
        raise ConfigError(
            f"{study.data} has no settings for {unknown[0]!r}, but for {', '.join(study.settings)}"
        )
    for letter in letters or study.settings:
        study.measure_model(letter)
    done = [letter for letter in done_models(study) if study.is_done(letter)]
    plain = [letter for letter in done if not is_paths(study.settings[letter])]
    for members in (plain, done):
        if len(members) > 1:
            study.measure_ensemble(members, METHOD)


@dataclass(frozen=True)
class Row:
    """A line of the leaderboard; None for what was not published."""

    title: str
    mrr: float
    hits_at_1: float
    hits_at_10: float
    mr: float | None
    parameters: int  # real ones, per entity
    minutes: float | None
    source: str


_HEAD = """# Leaderboard

Test split, filtered by train, valid and test, ties realistic; the highest MRR first, ours in bold.
A reciprocal model has relation parameters of its own for each direction. Minutes are of training,
on two cores, with one seed; the folder of each graph has settings and training histories.
"""


def page(studies: Sequence[Study]) -> str:
    """The tables of several graphs."""
    return "\n".join([_HEAD, *(leaderboard(study) for study in studies if pieces_of(study))])


def leaderboard(study: Study) -> str:
    """Ours and others as a Markdown table, the highest MRR first."""
    ours = [row_of(study, name) for name in pieces_of(study)]
    rows = [replace(row, title=f"**{row.title}**") for row in ours]
    rows += published_records(study.data)
    lines = [
        f"## {study.data}",
        "",
        "| model | MRR | Hits@1 | Hits@10 | MR | real parameters per entity | minutes | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: -row.mrr):
        lines.append("| " + " | ".join(_cell(value) for value in astuple(row)) + " |")
    return "\n".join(lines) + "\n"


def published_records(data: str) -> list[Row]:
    """The figures of others for a graph."""
    rows = read_toml("published.toml")["records"].get(data, ())
    return [
        Row(name, mrr, one, ten, mr or None, parameters, None, source)
        for name, mrr, one, ten, mr, parameters, source in rows
    ]


def pieces_of(study: Study) -> list[str]:
    """The models that are done, the ensemble of those that embed, and that of all of them."""
    done = done_models(study)
    plain = [letter for letter in done if not is_paths(study.settings[letter])]
    together = dict.fromkeys(f"{'+'.join(members)} ({METHOD})" for members in (plain, done))
    return [name for name in (*done, *together) if study.read(name)]


def done_models(study: Study) -> list[str]:
    """The letters of the models that are done with their present settings."""
    letters = [letter for letter in NAMES if letter in study.settings]
    return [letter for letter in letters if study.read(letter) and study.is_current(letter)]


def row_of(study: Study, name: str) -> Row:
    """The results of a piece."""
    found: Mapping[str, Any] = study.read(name)
    test = found["test"]["both"]
    letters = name.partition(" ")[0].split("+")
    settings = [study.settings[letter] for letter in letters]
    trained = [x for x in settings if not is_paths(x)]  # paths have no parameters per entity
    models = [bilink.Model.empty(x["model"], x["dim"], 1, 0) for x in trained]
    titles = [model.family.title for model in models]
    if len(trained) < len(settings):
        titles.append(NAMES["P"])
    return Row(
        " + ".join(titles),
        test["mrr"],
        test["hits@1"],
        test["hits@10"],
        test["mr"],
        sum(model.entities.size for model in models),
        sum(study.read(letter).get("minutes_of_training", 0) for letter in letters),
        f"`{found['command']}`",
    )


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}" if value < 1 else f"{value:,.0f}"
    return str(value)


# -- the picture: quality against minutes, with the figures of others as lines --------------------


def draw_records(study: Study, path: Path) -> None:
    """Write the picture to ``path``."""
    records_figure(study).savefig(path, dpi=120)


def records_figure(study: Study) -> Any:
    """The MRR of each model during training, on valid and, where measured, on test; and at last."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axis = figure.subplots()
    for name in sorted(pieces_of(study), key=lambda name: -row_of(study, name).mrr):
        row, colour = row_of(study, name), _COLOURS.get(name, _ENSEMBLE)
        folder = study.out / name
        for curve, style in ((tests(folder / "way.json"), "-"), (validations(folder), "--")):
            if curve:
                axis.plot(*zip(*curve, strict=True), style, color=colour, linewidth=1)
        title = row.title if name in _COLOURS else _together(name)
        dot = "o" if name in _COLOURS else "*"
        label = f"{title} {row.mrr:.3f}"
        axis.plot(row.minutes or 0.0, row.mrr, dot, color=colour, markersize=8, label=label)
    _draw_others(axis, published_records(study.data))
    _finish(axis, study.data)
    return figure


def _together(name: str) -> str:
    """What an ensemble is called in the picture."""
    return "all, with paths" if "P" in name else "all together"


def _draw_others(axis: Any, others: list[Row]) -> None:
    """A line for each, with its name beside it; names that would overlap are moved up."""
    for other in others:
        axis.axhline(other.mrr, color="#bbbbbb", linewidth=0.8, linestyle=":", zorder=0)
    low, high = axis.get_ylim()
    height = low
    for other in sorted(others, key=lambda row: row.mrr):
        height = max(other.mrr, height + 0.035 * (high - low))
        axis.annotate(
            f"{other.title}, {other.parameters}: {other.mrr:.3f}",
            (1.01, height),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=7,
            color="#777777",
        )


def _finish(axis: Any, data: str) -> None:
    axis.set_xscale("log", subs=range(2, 10))
    axis.xaxis.get_major_locator().set_params(subs=(1, 2, 5))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter("")
    axis.set_xlabel("minutes of training on two cores")
    axis.set_ylabel("MRR")
    axis.set_title(
        f"{data}: test (dots; during training, lines), others (dotted);\n"
        "valid, not filtered by test, so lower (dashed)",
        fontsize=9,
        loc="left",
    )
    axis.grid(color="#eeeeee", linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8, frameon=False)


def tests(path: Path) -> list[tuple[float, float]]:
    """(minutes so far, test MRR) from the file of ``time_to_quality.py``, if there is one."""
    if not path.exists():
        return []
    rows = json.loads(path.read_text(encoding="utf-8"))["way"]
    return [(minutes, mrr) for _, minutes, mrr, _ in rows]


def validations(piece: Path) -> list[tuple[float, float]]:
    """(minutes so far, validation MRR) from the history of a run."""
    history = piece / "history.jsonl"
    if not history.exists():
        return []
    rows = [json.loads(line) for line in history.read_text(encoding="utf-8").splitlines()]
    minutes = accumulate(row["seconds"] / 60 for row in rows)
    found = [(time, row.get("validation_mrr")) for time, row in zip(minutes, rows, strict=True)]
    return [(time, mrr) for time, mrr in found if mrr is not None]
