"""The report of a search: report.json for programs, report.md for people, and a picture."""

import json
import shlex
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from bilink._files import replacing, write_text
from bilink._text import printable
from bilink.data.graph import Graph
from bilink.search.space import split_settings
from bilink.search.trials import Trial, Trials

PICTURE = "trials.png"
ENOUGH = 4  # complete trials for an estimate of importance


def write(
    folder: Path,
    graph: Graph,
    source: Mapping[str, Any],
    trials: Trials,
    winner: Mapping[str, float] | None,
) -> dict[str, Any]:
    """Write the report; ``winner`` are the validation metrics of the winner, trained again.

    Without them the search was interrupted: the picture and the importances, which take time, are
    left out.
    """
    ranked, every, space = trials.complete(), trials.all(), trials.space
    found = {
        "graph": {**source, "fingerprint": graph.fingerprint},
        "method": space.method,
        "metric": space.metric,
        "split": "valid",
        "filter": ["train", "valid"],
        "wanted": space.wanted,
        "states": dict(Counter(trial.state for trial in every)),
        "best": ranked[0].to_dict() if ranked else None,
        "retrained": {"run": str(folder / "best"), "metrics": dict(winner)} if winner else None,
        "importance": _importance(trials) if winner and len(ranked) >= ENOUGH else {},
        "trials": [trial.to_dict() for trial in every],
    }
    picture = bool(winner) and len(ranked) > 1 and _draw(trials, folder / PICTURE)
    write_text(folder / "report.json", json.dumps(found, indent=1) + "\n")
    write_text(folder / "report.md", _markdown(found, trials, picture))
    return found


def _importance(trials: Trials) -> dict[str, float]:
    """How much of the metric's variance each setting explains (PED-ANOVA)."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shares = get_param_importances(trials.study, evaluator=PedAnovaImportanceEvaluator())
    except (ValueError, RuntimeError):  # too few trials, or all of them equally good
        return {}
    return {key: float(share) for key, share in shares.items()}


def _draw(trials: Trials, path: Path) -> bool:
    """Parallel coordinates of the complete trials; False where matplotlib is not installed."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError:
        return False
    from optuna.visualization.matplotlib import plot_parallel_coordinate

    keys, metric = list(trials.space.choices), trials.space.metric
    with warnings.catch_warnings(), pyplot.rc_context({"backend": "agg"}):
        warnings.simplefilter("ignore")
        axes = plot_parallel_coordinate(trials.study, params=keys, target_name=metric)
        axes.set_title(f"{metric} on the validation split by settings")
        figure: Any = axes.figure
        figure.set_size_inches(2 + 1.6 * len(keys), 4.5)
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png", dpi=120, bbox_inches="tight")
        pyplot.close(figure)
    return True


def _markdown(found: Mapping[str, Any], trials: Trials, picture: bool) -> str:
    ranked, every, space = trials.complete(), trials.all(), trials.space
    states = ", ".join(f"{number} {state}" for state, number in found["states"].items())
    parts = [
        f"# Search on {_cell(found['graph']['source'])}",
        f"{space.method}, {len(every)} of {space.wanted} trials ({states}). Compared by "
        f"{space.metric} on the validation split, filtered by train and valid; the test split was "
        "not used.",
    ]
    if ranked:
        parts += _best(found, ranked[0])
    if found["importance"]:
        shares = [f"| {key} | {share:.2f} |" for key, share in found["importance"].items()]
        parts += ["## What mattered", "\n".join(["| setting | importance |", "|---|---|", *shares])]
    if picture:
        parts.append(f"![parallel coordinates of the trials]({PICTURE})")
    parts += ["## Trials", _table(trials)]
    notes = [
        f"- trial {t.number}: {_cell(text)}"
        for t in every
        for text in (*(f"run again, because {cause}" for cause in t.lost), t.cause)
        if text
    ]
    if notes:
        parts += ["## Failures", "\n".join(notes)]
    return "\n\n".join(parts) + "\n"


def _best(found: Mapping[str, Any], best: Trial) -> list[str]:
    model, dim, options = split_settings(best.settings)
    more = [part for key, value in options.items() for part in ("--set", f"{key}={_word(value)}")]
    command = ["bilink", "train", found["graph"]["source"], "--model", model, "--dim", str(dim)]
    parts = [
        f"## Best: trial {best.number}, {found['metric']} {_number(best.value)}",
        f"```toml\n{tomli_w.dumps(dict(best.settings))}```",
        f"```sh\n{printable(shlex.join([*command, *more]))}\n```",
    ]
    if found["retrained"]:
        metrics = ", ".join(
            f"{name} {_number(value)}" for name, value in found["retrained"]["metrics"].items()
        )
        parts.append(f"Trained again into `best/`: {metrics} on the validation split.")
    return parts


def _table(trials: Trials) -> str:
    """Complete trials, best first, then the others."""
    others = [trial for trial in trials.all() if trial.state != "complete"]
    keys = list(trials.space.choices)
    head = ["trial", "state", trials.space.metric, *keys, "epochs", "seconds"]
    rows = [
        [
            str(t.number),
            t.state if t.same_as is None else f"as trial {t.same_as}",
            _number(t.value),
            *(_number(t.chosen.get(key)) for key in keys),
            str(t.epochs),
            _number(t.seconds),
        ]
        for t in (*trials.complete(), *others)
    ]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _number(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else _word(value)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|")
