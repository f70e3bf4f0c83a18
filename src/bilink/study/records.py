"""The records study: softmax training at small sizes, its ensemble, and the figures of others.

OUT/fb15k/softmax/C/                config.toml, history.jsonl, metrics.json
OUT/fb15k/softmax/R+T+C (stack)/    metrics.json
OUT/fb15k/leaderboard.md, .png      ours and others, best first; quality against minutes
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from bilink.errors import ConfigError
from bilink.models.registry import family
from bilink.study.wang2018 import NAMES, Hooks, Study, read_toml

RECIPE = "softmax"
METHOD = "stack"  # of the ensemble


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


def record_settings(data: str) -> dict[str, dict[str, Any]]:
    """For each model of a graph, its options."""
    found = read_toml("records.toml")
    shared = found.pop("shared")
    if data not in found:
        raise ConfigError(f"there are no settings for {data!r}, but for {', '.join(sorted(found))}")
    return {letter: {**shared, **options} for letter, options in found[data].items()}


def run_records(study: Study, letters: Sequence[str] | None = None) -> None:
    """Train and measure the models, or some of them, and the ensemble of all that are done.

    One that was done with other settings is no member: it would be trained again unasked.
    """
    unknown = [letter for letter in letters or () if letter not in study.settings]
    if unknown:
        raise ConfigError(
            f"{study.data} has no settings for {unknown[0]!r}, but for {', '.join(study.settings)}"
        )
    for letter in letters or study.settings:
        study.measure_model(letter)
    done = [letter for letter in done_models(study) if study.is_done(letter)]
    if len(done) > 1:
        study.measure_ensemble(done, METHOD)


@dataclass(frozen=True)
class Row:
    """A line of the leaderboard; None where a figure was not published."""

    title: str
    mrr: float
    hits_at_1: float
    hits_at_10: float
    mr: float | None
    numbers: int  # real ones, of an entity
    minutes: float | None
    source: str


def leaderboard(study: Study) -> str:
    """Ours and others as a Markdown table, the highest MRR first."""
    ours = [row_of(study, name) for name in pieces_of(study)]
    rows = [replace(row, title=f"**{row.title}**") for row in ours]
    rows += published_records(study.data)
    lines = [
        f"# {study.data}: test, filtered, ties realistic",
        "",
        "| model | MRR | Hits@1 | Hits@10 | MR | numbers per entity | minutes | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: -row.mrr):
        lines.append("| " + " | ".join(_cell(value) for value in astuple(row)) + " |")
    return "\n".join(lines) + "\n"


def published_records(data: str) -> list[Row]:
    """The figures of others for a graph."""
    return [
        Row(name, mrr, one, ten, mr or None, numbers, None, source)
        for name, mrr, one, ten, mr, numbers, source in read_toml("published.toml")["records"].get(
            data, ()
        )
    ]


def pieces_of(study: Study) -> list[str]:
    """The models that are done, and the ensemble of all of them."""
    done = done_models(study)
    return [name for name in (*done, f"{'+'.join(done)} ({METHOD})") if study.read(name)]


def done_models(study: Study) -> list[str]:
    """The letters of the models that are done, with the settings of now."""
    letters = [letter for letter in NAMES if letter in study.settings]
    return [letter for letter in letters if study.read(letter) and study.is_current(letter)]


def row_of(study: Study, name: str) -> Row:
    """What was measured on a piece."""
    found: Mapping[str, Any] = study.read(name)
    test = found["test"]["both"]
    letters = name.partition(" ")[0].split("+")
    numbers = sum(
        family(study.settings[x]["model"]).widths(study.settings[x]["dim"])[0] for x in letters
    )
    return Row(
        " + ".join(NAMES[letter] for letter in letters),
        test["mrr"],
        test["hits@1"],
        test["hits@10"],
        test["mr"],
        numbers,
        sum(study.read(letter).get("minutes_of_training", 0) for letter in letters),
        f"`{found['command']}`",
    )


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}" if value < 1 else f"{value:,.0f}"
    return str(value)
