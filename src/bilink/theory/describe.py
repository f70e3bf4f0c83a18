"""What the theory says about a graph: what each model can, and cannot, tell apart in it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bilink._files import user_cache, write_error, write_text
from bilink.data.graph import SPLITS, Graph
from bilink.errors import RunError
from bilink.theory.consistent_models import paper_sizes, sizes
from bilink.theory.relations import RelationFacts, each_of, facts_of, twins
from bilink.theory.rounding.rank import RoundingRank, rounding_rank

_VERSION = 1  # of the files in the cache, and of the search that filled them


@dataclass(frozen=True)
class RankBounds:
    """Bounds on a rounding rank."""

    lower: int
    upper: int
    certified: int | None  # the rank of factors that were checked entry by entry in float64
    margin_over_error: float | None  # of these factors

    @classmethod
    def of(cls, found: RoundingRank) -> "RankBounds":
        """Without the factors."""
        margin = None if found.factors is None else found.margin_over_error
        return cls(found.lower, found.upper, found.certified_rank, margin)


@dataclass(frozen=True)
class RelationTheory:
    """One relation."""

    relation: str
    facts: int
    category: str | None
    symmetric: bool  # the reverse of every fact is a fact
    symmetry: float | None  # share of facts whose reverse is a fact
    reflexivity: float | None  # share of facts between an entity and itself
    same_as: str | None  # an earlier relation with just these facts
    inverse_of: str | None  # an earlier relation with just these facts reversed
    lost_by_distmult: int  # facts that no DistMult of any size has above every non-fact
    lost_by_transe: int  # at least so many facts, for TransE
    rounding_rank: RankBounds


@dataclass(frozen=True)
class GraphTheory:
    """All relations, and the sizes at which models can tell every fact from every non-fact."""

    name: str
    fingerprint: str
    splits: tuple[str, ...]
    entities: int
    relations: tuple[RelationTheory, ...]

    @property
    def distinct(self) -> list[RelationTheory]:
        """The relations that are no copy or inverse of an earlier one."""
        return [r for r in self.relations if r.same_as is None and r.inverse_of is None]

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes that are enough, by family; twins share coordinates."""
        return sizes([r.rounding_rank.upper for r in self.distinct], self.entities)

    @property
    def paper_sizes(self) -> dict[str, int]:
        """What Theorems 11 and 12 and Corollary 4 of Wang et al. (2018) give for these ranks."""
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
            "relations": [asdict(r) for r in self.relations],
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

    What is found for a relation is kept in the folder ``keep`` [the user's cache], so that another
    call goes on where this one was stopped.  ``progress`` is called with the number of facts whose
    relation is just done.
    """
    relations = facts_of(graph, splits)
    first = twins(relations)
    own = [k for k, (twin, _) in enumerate(first) if twin == k]
    store = _Store(keep or user_cache() / "theory", effort, needed=keep is not None)

    def find(k: int) -> RankBounds:
        facts = relations[k]
        bounds = store.read(facts)
        if bounds is None:
            found = rounding_rank(facts.heads, facts.tails, facts.n, effort=effort)
            bounds = RankBounds.of(found)
            store.write(facts, bounds)
        if progress:
            progress(len(facts))
        return bounds

    found = each_of(find, own, relations, threads)
    names = graph.relations.names
    described = tuple(
        _relation(names, facts, *first[k], found[first[k][0]]) for k, facts in enumerate(relations)
    )
    return GraphTheory(graph.name, graph.fingerprint, tuple(splits), len(graph.entities), described)


def kept_bounds(facts: RelationFacts, effort: float = 1.0) -> RankBounds | None:
    """What an earlier ``describe`` left in the user's cache about these facts, if anything."""
    return _Store(user_cache() / "theory", effort, needed=False).read(facts)


def _relation(
    names: Sequence[str], facts: RelationFacts, twin: int, turned: bool, bounds: RankBounds
) -> RelationTheory:
    other = None if twin == facts.relation else names[twin]
    return RelationTheory(
        relation=names[facts.relation],
        facts=len(facts),
        category=facts.category,
        symmetric=facts.symmetric,
        symmetry=float(facts.returned.mean()) if len(facts) else None,
        reflexivity=facts.loops / len(facts) if len(facts) else None,
        same_as=None if turned else other,
        inverse_of=other if turned else None,
        lost_by_distmult=facts.lost_by_distmult(),
        lost_by_transe=facts.lost_by_transe(),
        rounding_rank=bounds,
    )


class _Store:
    """Bounds on disk, one small file per relation, named by a hash of its facts."""

    def __init__(self, folder: Path, effort: float, needed: bool):
        self.folder, self.suffix = folder, f"-{_VERSION}-{effort:g}.json"
        self.needed = needed  # the user asked for it, so that not being able to write is an error

    def read(self, facts: RelationFacts) -> RankBounds | None:
        """What is kept, or None where there is nothing, or nothing whole."""
        try:
            return RankBounds(**json.loads(self._path(facts).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, facts: RelationFacts, bounds: RankBounds) -> None:
        """Keep ``bounds``."""
        path = self._path(facts)
        try:
            make_folder(path.parent)
            write_text(path, json.dumps(asdict(bounds)) + "\n")
        except RunError:
            if self.needed:
                raise

    def _path(self, facts: RelationFacts) -> Path:
        return self.folder / f"{facts.fingerprint}{self.suffix}"


def make_folder(folder: Path) -> None:
    """Make a folder; where that is impossible, say so in a sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from error
