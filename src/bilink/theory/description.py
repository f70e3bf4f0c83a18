"""What a graph asks of each model: which facts it can tell apart, and from which size on."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bilink._documents import read_json
from bilink._files import user_cache, write_error, write_text
from bilink._plot import new_figure, save_figure
from bilink.data.graph import SPLITS, Graph
from bilink.errors import RunError
from bilink.theory.consistent_models import FAMILIES, paper_sizes, sizes
from bilink.theory.relations import RelationFacts, facts_of, for_distinct
from bilink.theory.rounding.rank import rounding_rank

_VERSION = 1  # of the files in the cache, and of the search that filled them
_MOST_DRAWN = 30  # relations
_BLUE, _GREY, _RED = "#2a6f97", "#adb5bd", "#c1121f"


@dataclass(frozen=True)
class RankBounds:
    """Bounds on a rounding rank."""

    lower: int
    upper: int
    certified: int | None  # the rank of factors that were checked entry by entry in float64
    margin_over_error: float | None  # of these factors


@dataclass(frozen=True)
class RelationTheory:
    """One relation.

    ``reverse_share`` counts loops, which are their own reverse.  ``symmetry`` in
    ``bilink.data.statistics`` does not.
    """

    relation: str
    facts: int
    category: str | None
    symmetric: bool  # the reverse of every fact is a fact
    reverse_share: float | None  # share of facts whose reverse is a fact; "symmetry" in JSON
    reflexivity: float | None  # share of facts between an entity and itself
    same_as: str | None  # an earlier relation with just these facts
    inverse_of: str | None  # an earlier relation with just these facts reversed
    lost_by_distmult: int  # facts that no DistMult of any size scores above every non-fact
    lost_by_transe: int  # the same for TransE, at least
    rounding_rank: RankBounds

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        names = {"reverse_share": "symmetry"}
        return {names.get(name, name): value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class GraphTheory:
    """All relations, and the sizes from which models can tell every fact from every non-fact."""

    name: str
    fingerprint: str
    splits: tuple[str, ...]
    entities: int
    relations: tuple[RelationTheory, ...]

    @property
    def distinct(self) -> list[RelationTheory]:
        """The relations that are neither a copy nor an inverse of an earlier one."""
        return [r for r in self.relations if r.same_as is None and r.inverse_of is None]

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes that are enough, by family; copies and inverses share coordinates."""
        return sizes([r.rounding_rank.upper for r in self.distinct], self.entities)

    @property
    def paper_sizes(self) -> dict[str, int]:
        """The sizes by Theorems 11 and 12 and Corollary 4 of Wang et al. (2018)."""
        ranks = [r.rounding_rank.upper for r in self.relations]
        return paper_sizes(ranks, self.entities)

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink theory describe --json`` prints it."""
        return {
            "graph": self.name,
            "fingerprint": self.fingerprint,
            "splits": list(self.splits),
            "entities": self.entities,
            "facts": sum(r.facts for r in self.relations),
            "relations": [relation.to_dict() for relation in self.relations],
            "rounding_ranks": {
                "lower": sum(r.rounding_rank.lower for r in self.relations),
                "upper": sum(r.rounding_rank.upper for r in self.relations),
                "upper_of_distinct": sum(r.rounding_rank.upper for r in self.distinct),
                "certified": sum(r.rounding_rank.certified is not None for r in self.relations),
            },
            "lost_by_distmult": sum(r.lost_by_distmult for r in self.relations),
            "lost_by_transe": sum(r.lost_by_transe for r in self.relations),
            "sizes": self.sizes,
            "paper_sizes": self.paper_sizes,
        }


def describe(
    graph: Graph,
    *,
    splits: Sequence[str] = SPLITS,
    effort: float = 1.0,
    threads: int = 1,
    keep: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> GraphTheory:
    """Describe every relation of ``graph``, whose facts are the triples of ``splits``.

    The bounds of each relation are kept in the folder ``keep`` [the user's cache], so that a call
    that was stopped can be continued by another.  ``progress`` is called with the number of facts
    of each relation that is done.
    """
    relations = facts_of(graph, splits)
    store = _Store(keep or user_cache() / "theory", effort, needed=keep is not None)

    def find(facts: RelationFacts) -> RankBounds:
        bounds = store.read(facts)
        if bounds is None:
            found = rounding_rank(facts.heads, facts.tails, facts.n, effort=effort)
            margin = None if found.factors is None else found.margin_over_error
            bounds = RankBounds(found.lower, found.upper, found.certified_rank, margin)
            store.write(facts, bounds)
        return bounds

    found = for_distinct(find, relations, threads, progress)
    names = graph.relations.names
    described = tuple(_relation(names, *pair) for pair in zip(relations, found, strict=True))
    return GraphTheory(graph.name, graph.fingerprint, tuple(splits), len(graph.entities), described)


def kept_bounds(facts: RelationFacts, effort: float = 1.0) -> RankBounds | None:
    """The bounds that an earlier ``describe`` left in the user's cache, if any."""
    return _Store(user_cache() / "theory", effort, needed=False).read(facts)


def _relation(
    names: Sequence[str], facts: RelationFacts, found: tuple[int, bool, RankBounds]
) -> RelationTheory:
    first, inverse, bounds = found
    other = None if first == facts.relation else names[first]
    return RelationTheory(
        relation=names[facts.relation],
        facts=len(facts),
        category=facts.category,
        symmetric=facts.symmetric,
        reverse_share=float(facts.has_reverse.mean()) if len(facts) else None,
        reflexivity=facts.loops / len(facts) if len(facts) else None,
        same_as=None if inverse else other,
        inverse_of=other if inverse else None,
        lost_by_distmult=facts.lost_by_distmult(),
        lost_by_transe=facts.lost_by_transe(),
        rounding_rank=bounds,
    )


class _Store:
    """Bounds on disk, one small file per relation, named by a hash of its facts."""

    def __init__(self, folder: Path, effort: float, needed: bool):
        self.folder, self.suffix = folder, f"-{_VERSION}-{effort:g}.json"
        self.needed = needed  # the user named the folder, so failing to write is an error

    def read(self, facts: RelationFacts) -> RankBounds | None:
        """The bounds, or None where no file holds them, or a damaged one."""
        try:
            return read_json(self._path(facts), RankBounds)
        except RunError:
            return None

    def write(self, facts: RelationFacts, bounds: RankBounds) -> None:
        """Keep ``bounds``."""
        with nullcontext() if self.needed else suppress(RunError):
            make_folder(self.folder)
            write_text(self._path(facts), json.dumps(asdict(bounds)) + "\n")

    def _path(self, facts: RelationFacts) -> Path:
        return self.folder / f"{facts.fingerprint}{self.suffix}"


def make_folder(folder: Path) -> None:
    """Make a folder, or raise an error that names it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from error


def draw_theory(found: GraphTheory, path: Path) -> None:
    """Write the rounding ranks of the largest relations, and the sizes, to an image file."""
    shown = sorted(found.relations, key=lambda r: -r.facts)[:_MOST_DRAWN][::-1]
    height = 1.2 + 0.24 * max(len(shown), 6)
    figure = new_figure("the picture of a graph", figsize=(11, height))
    ranks, bars = figure.subplots(1, 2, width_ratios=(3, 2))
    for y, relation in enumerate(shown):
        bounds = relation.rounding_rank
        ranks.plot([bounds.lower, bounds.upper], [y, y], color=_GREY, linewidth=4, zorder=1)
        ranks.plot(bounds.upper, y, "o", color=_BLUE, zorder=2)
        ranks.plot(bounds.lower, y, "|", color=_RED, markersize=9, zorder=2)
    labels = [f"{r.relation[-40:]}  ({r.facts:,})".replace("$", r"\$") for r in shown]
    ranks.set_yticks(range(len(shown)), labels, fontsize=7)
    ranks.set_xlim(left=0)
    ranks.set_xlabel("rounding rank: proved bounds")
    ranks.set_title(f"{found.name}: dimensions that tell facts from non-facts", fontsize=9)
    for label, shift, colour, needed in (
        ("paper's formula", -0.2, _GREY, found.paper_sizes),
        ("here", 0.2, _BLUE, found.sizes),
    ):
        places, heights = [x + shift for x in range(3)], [needed[name] for name in FAMILIES]
        drawn = bars.bar(places, heights, 0.38, color=colour, label=label)
        bars.bar_label(drawn, fmt="{:,.0f}", fontsize=8)
    bars.axhline(found.entities, color=_RED, linewidth=1, linestyle="--")
    bars.text(2.4, found.entities, "entities", color=_RED, ha="right", va="bottom", fontsize=8)
    bars.set_yscale("log")
    bars.set_xticks(range(3), ("RESCAL", "ComplEx", "HolE"))
    bars.set_title("size that is enough for all facts", fontsize=9)
    bars.legend(fontsize=8)
    save_figure(figure, path, dpi=110)
