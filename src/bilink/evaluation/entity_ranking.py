"""Entity ranking: hide the head or the tail of each held-out triple and ask for it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bilink._text import html_table
from bilink.data.graph import SPLITS, Graph
from bilink.data.index import KnownAnswers, answers_of
from bilink.data.statistics import CATEGORIES, categories
from bilink.errors import DataError
from bilink.evaluation.metrics import HITS, gains, rank_metrics
from bilink.evaluation.ranks import Ranks, rank_triples, tie_rule
from bilink.models.scorer import SIDES, Scorer, Side

RESAMPLES = 1000
VALIDATION_FILTER = ("train", "valid")  # where something is chosen: test is not looked at


@dataclass(frozen=True, eq=False)
class EntityRanking:
    """The ranks of every held-out triple, and the protocol under which they were found."""

    split: str
    filter: tuple[str, ...]  # splits whose other answers do not count; empty is "raw"
    ties: str
    unseen: int  # triples with an entity that training never saw; they are kept
    seconds: float
    triples: np.ndarray
    ranks: dict[Side, Ranks]
    graph: Graph

    def __repr__(self) -> str:
        found = self.metrics()
        names = ("mrr", "hits@1", "hits@10", "mr")
        figures = ", ".join(f"{name} {found[name]:.3f}" for name in names)
        return f"EntityRanking({2 * len(self.triples):,} queries of {self.split}: {figures})"

    def _repr_html_(self) -> str:
        rows = [[side, *self.metrics(side).values()] for side in ("both", *SIDES)]
        filtered = f"filtered by {', '.join(self.filter)}" if self.filter else "raw"
        title = f"{2 * len(self.triples):,} queries of {self.split}"
        note = f"{filtered}; ties {self.ties}; graph {self.fingerprint}"
        return html_table(("", *self.metrics()), rows, title=title, note=note)

    @property
    def fingerprint(self) -> str:
        """Of the graph."""
        return self.graph.fingerprint

    @cached_property
    def categories(self) -> Sequence[str | None]:
        """Of each relation; None where training has no such triple."""
        return categories(self.graph)

    @cached_property
    def _values(self) -> dict[Side, np.ndarray]:
        return {side: ranks.values(self.ties) for side, ranks in self.ranks.items()}

    def values(self, side: Side) -> np.ndarray:
        """The rank of each triple's ``side``."""
        return self._values[side]

    def metrics(self, side: str = "both", where: np.ndarray | None = None) -> dict[str, float]:
        """Metrics of one side or of both, over all triples or those that ``where`` selects."""
        sides = [s for s in SIDES if side in (s, "both")]
        chosen = slice(None) if where is None else where
        ranks = np.concatenate([self.values(s)[chosen] for s in sides])
        options = np.concatenate([self.ranks[s].options[chosen] for s in sides])
        return rank_metrics(ranks, options)

    def per_relation(self) -> list[dict[str, Any]]:
        """One row of metrics per relation that occurs, most frequent first."""
        order = np.argsort(self.triples[:, 1], kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(self.triples[order, 1])) + 1)
        rows = []
        for where in sorted(groups, key=len, reverse=True):
            r = self.triples[where[0], 1]
            row = {
                "relation": self.graph.relations.names[r],
                "category": self.categories[r],
                "triples": len(where),
            }
            for side in ("both", *SIDES):
                prefix = "" if side == "both" else f"{side}_"
                row |= {prefix + key: x for key, x in self.metrics(side, where).items()}
            rows.append(row)
        return rows

    def macro(self) -> dict[str, float]:
        """The mean over relations of their metrics, so that rare relations count as much."""
        rows = self.per_relation()
        return {key: float(np.mean([row[key] for row in rows])) for key in self.metrics()}

    def per_category(self) -> dict[str, dict[Side, dict[str, float]]]:
        """Metrics by category of the relation and side."""
        of_triple = np.array([self.categories[r] or "" for r in self.triples[:, 1]], dtype=object)
        found: dict[str, dict[Side, dict[str, float]]] = {}
        for category in CATEGORIES:
            where = of_triple == category
            if where.any():
                found[category] = {side: self.metrics(side, where) for side in SIDES}
        return found

    def intervals(self, level: float = 0.95, seed: int = 0) -> dict[str, tuple[float, float]]:
        """Bootstrap intervals of the metrics over both sides; whole triples are drawn."""
        names = ("mrr", "mr", *(f"hits@{k}" for k in HITS))
        ranks = np.stack([self.values(side) for side in SIDES])
        values = np.stack([gains(ranks, name).mean(axis=0) for name in names], axis=1)
        random = np.random.default_rng(seed)
        n = len(values)
        means = np.empty((RESAMPLES, len(names)))
        for i in range(RESAMPLES):
            times_drawn = np.bincount(random.integers(0, n, n), minlength=n)
            means[i] = times_drawn @ values / n
        low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return {name: (float(low[i]), float(high[i])) for i, name in enumerate(names)}

    @property
    def protocol(self) -> str:
        """How it was found, in words: results with the same words can be compared."""
        against = "filtered by " + "+".join(self.filter) if self.filter else "raw"
        return f"{self.split}, {against}, ties {self.ties}"

    def to_dict(self) -> dict[str, Any]:
        """The result as ``bilink evaluate --json`` prints it."""
        both = self.metrics()
        return {
            "protocol": self.protocol,
            "split": self.split,
            "filter": list(self.filter),
            "ties": self.ties,
            "queries": 2 * len(self.triples),
            "tied_queries": int(sum(np.count_nonzero(r.level) for r in self.ranks.values())),
            "triples_with_unseen_entities": self.unseen,
            "graph": self.fingerprint,
            "seconds": round(self.seconds, 3),
            "both": both,
            "intervals95": {name: list(pair) for name, pair in self.intervals().items()},
            "macro": self.macro(),
            "head": self.metrics("head"),
            "tail": self.metrics("tail"),
            "categories": self.per_category(),
        }


def rank_entities(
    scorer: Scorer,
    graph: Graph,
    split: str = "test",
    *,
    filter: Sequence[str] = SPLITS,
    ties: str = "realistic",
    triples: np.ndarray | None = None,
    known: Mapping[str, KnownAnswers] | None = None,
    memory: int | None = None,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> EntityRanking:
    """Rank the triples of ``split`` (or only ``triples``) of ``graph`` with ``scorer``.

    ``filter`` names the splits whose other answers do not count; ``known``, their index, need not
    be given, but saves time where many rankings use the same one.
    """
    chosen = graph.split(split) if triples is None else triples
    if len(chosen) == 0:
        raise DataError(f"graph {graph.name!r} has no {split} triples to rank")
    if scorer.n_entities != len(graph.entities):
        raise DataError(
            f"the model has {scorer.n_entities:,} entities, graph {graph.name!r} has "
            f"{len(graph.entities):,}; they do not belong together"
        )
    rule = tie_rule(ties)
    started = time.perf_counter()
    known = known or answers_of(graph, filter, chosen)
    ranks = rank_triples(scorer, chosen, known, memory=memory, threads=threads, progress=progress)
    seconds = time.perf_counter() - started
    unseen = np.isin(chosen[:, [0, 2]], graph.unseen_entities).any(axis=1)
    return EntityRanking(
        split=split,
        filter=tuple(filter),
        ties=rule,
        unseen=int(unseen.sum()),
        seconds=seconds,
        triples=chosen,
        ranks=ranks,
        graph=graph,
    )
