"""Which member carries which relation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bilink._plot import new_figure, save_figure
from bilink._random import Stream, generator
from bilink.data.graph import Graph
from bilink.ensembles.mixture import MixtureScorer
from bilink.models.scorer import SIDES

SAMPLE = 200  # random triples of a relation that shares are measured on


def weight_shares(
    scorer: MixtureScorer, names: Sequence[str], graph: Graph, seed: int = 0
) -> list[dict[str, Any]]:
    """For each relation, most frequent first: the share of each member in the score, by side.

    A weight says little, since members' scores differ in size.  The share is of weight times the
    standard deviation of the member's scores of random triples of the relation.
    """
    counts = np.bincount(graph.train[:, 1], minlength=len(graph.relations))
    deviations = _deviations(scorer, graph, seed)
    rows = []
    for r in np.argsort(-counts, kind="stable"):
        row: dict[str, Any] = {"relation": graph.relations.names[r], "triples": int(counts[r])}
        for side in SIDES:
            sizes = np.abs(scorer.weights[side][r]) * deviations[r]
            shares = sizes / max(sizes.sum(), 1e-300)
            row |= {f"{side} {name}": float(x) for name, x in zip(names, shares, strict=True)}
        rows.append(row)
    return rows


def _deviations(scorer: MixtureScorer, graph: Graph, seed: int) -> np.ndarray:
    """For each relation and member, how far the scores of random triples lie apart."""
    random = generator(seed, Stream.SHARES)
    k, n = len(graph.relations), len(graph.entities)
    relations = np.repeat(np.arange(k, dtype=np.int32), SAMPLE)
    triples = random.integers(0, n, (len(relations), 3), dtype=np.int32)
    triples[:, 1] = relations
    scores = [member.score(triples).reshape(k, SAMPLE) for member in scorer.members]
    return np.stack([block.std(axis=1, dtype=np.float64) for block in scores], axis=1)


def draw_shares(rows: list[dict[str, Any]], names: Sequence[str], path: Path) -> None:
    """A picture of the thirty most frequent relations: one bar each, one colour per member."""
    shown = rows[:30]
    figure = new_figure("the picture of an ensemble", figsize=(10, 1.2 + 0.28 * len(shown)))
    axes = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(shown))[::-1]
    for axis, side in zip(axes, SIDES, strict=True):
        left = np.zeros(len(shown))
        for name in names:
            widths = np.array([row[f"{side} {name}"] for row in shown])
            axis.barh(places, widths, left=left, label=name, height=0.8)
            left += widths
        axis.set(title=f"asked for the {side}", xlim=(0, 1), xlabel="share of the score")
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(left=False)
    axes[0].set_yticks(places, [_short(row["relation"]) for row in shown])
    axes[0].set_ylim(-0.6, len(shown) - 0.4)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(names), frameon=False)
    save_figure(figure, path, dpi=150)


def _short(name: str, width: int = 50) -> str:
    return (name if len(name) <= width else "…" + name[1 - width :]).replace("$", r"\$")
