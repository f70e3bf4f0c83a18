"""Table 1 of Wang et al. (2018), as printed and as it stands corrected, with numbers put in.

A row is a family; its cells say from which size r on it is universal, consistent with a Boolean
tensor B, or subsumes another family of size r'.  All sizes suffice.  "Optimal" ones cannot be
smaller without changing some scores by more than a constant for each relation, if entities and
relations are many enough; the ranks of slices and what they span show it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bilink.data.graph import Graph
from bilink.errors import ConfigError
from bilink.models.registry import family as find_family
from bilink.theory.consistent_models import paper_sizes, sizes
from bilink.theory.conversions import ARROWS
from bilink.theory.lower_bounds import paper_bound, warren_bound
from bilink.theory.slices import inertia_bound

ROWS = ("rescal", "hole", "complex", "distmult", "transe")
SUBSUMED = ("rescal", "hole", "complex", "distmult", "transe")
COLUMNS = ("universal", "consistent", *SUBSUMED)
NEVER, UNKNOWN = "no", "?"


@dataclass(frozen=True)
class Cell:
    """What is known of one cell: a formula, its source, and its value where all letters are known.

    A value of ``None`` means that the formula is "no" or "?", or that a letter is not given.
    """

    row: str
    column: str
    paper: str
    paper_source: str
    paper_value: int | None
    formula: str
    source: str
    value: int | None
    optimal: bool

    @property
    def title(self) -> str:
        """The family's name."""
        return find_family(self.row).title

    @property
    def question(self) -> str:
        """What the size is enough for."""
        names = {"universal": "every ranking", "consistent": "the facts"}
        return names.get(self.column) or f"{find_family(self.column).title}, size r'"


@dataclass(frozen=True)
class Bounds:
    """Table 1 for given sizes, and lower bounds on consistency with every Boolean tensor."""

    entities: int
    relations: int
    dim: int | None  # the r' of the subsumed model
    rounding_ranks: tuple[int, ...] | None  # an upper bound for each relation
    cells: tuple[Cell, ...]
    least: dict[str, int]  # by Warren's theorem: no smaller size is consistent with every B
    least_paper: int  # by N/32

    def cell(self, row: str, column: str) -> Cell:
        """One cell of the table."""
        return next(c for c in self.cells if (c.row, c.column) == (row, column))

    @property
    def legend(self) -> str:
        """What the letters mean, and the lower bounds."""
        least = ", ".join(f"{find_family(row).title} {size:,}" for row, size in self.least.items())
        known = "" if self.rounding_ranks is None else f"; Σrr ≤ {sum(self.rounding_ranks):,}"
        return (
            f"N = {self.entities:,} entities, K = {self.relations:,} relations{known}. rr is the "
            f"rounding rank of a relation; f(N) = {inertia_bound(self.entities):,} is between 3N/4 "
            "and 5N/6. * Nothing smaller keeps all scores, if N and K are large.\n"
            f"Below these sizes some set of facts is out of reach: {least} (by counting; the "
            f"paper's N/32 is {self.least_paper:,})."
        )

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink theory bounds --json`` prints it."""
        return asdict(self)


def bounds(
    entities: int,
    relations: int,
    dim: int | None = None,
    rounding_ranks: Sequence[int] | None = None,
) -> Bounds:
    """Table 1 for N entities, K relations, subsumed models of size ``dim``, and given ranks.

    ``rounding_ranks`` are upper bounds on the rounding rank of each relation; see
    ``degree_ranks`` for simple ones.
    """
    for name, value, least in (
        ("entities", entities, 2),
        ("relations", relations, 1),
        ("dim", 1 if dim is None else dim, 1),
    ):
        if value < least:
            raise ConfigError(f"the theory needs {name} to be at least {least}, not {value}")
    if rounding_ranks is not None and len(rounding_ranks) != relations:
        raise ConfigError(
            f"{relations} relations need as many rounding ranks, not {len(rounding_ranks)}"
        )
    ranks = None if rounding_ranks is None else tuple(map(int, rounding_ranks))
    cells = [_universal(row, entities, relations) for row in ROWS]
    cells += [_consistent(row, entities, ranks) for row in ROWS]
    cells += [_subsumes(row, column, dim, relations) for row in ROWS for column in SUBSUMED]
    return Bounds(
        entities=entities,
        relations=relations,
        dim=dim,
        rounding_ranks=ranks,
        cells=tuple(cells),
        least={row: warren_bound(row, entities, relations) for row in _UNIVERSAL},
        least_paper=paper_bound(entities),
    )


def bounds_of(
    graph: Graph, dim: int | None = None, rounding_ranks: Sequence[int] | None = None
) -> Bounds:
    """Table 1 for a graph; by default with what its degrees say of its rounding ranks."""
    ranks = degree_ranks(graph) if rounding_ranks is None else rounding_ranks
    return bounds(len(graph.entities), len(graph.relations), dim, ranks)


def degree_ranks(graph: Graph) -> list[int]:
    """An upper bound on the rounding rank of each relation, by degrees alone.

    Where no head has more than d tails, or no tail more than d heads, 2d is enough: the facts of a
    row are then d intervals of a line, which a polynomial of degree 2d tells apart.
    """
    triples = np.unique(graph.triples, axis=0)
    ranks = []
    for k in range(len(graph.relations)):
        pairs = triples[triples[:, 1] == k]
        degrees = [np.bincount(pairs[:, side]).max(initial=0) for side in (0, 2)]
        ranks.append(int(min(2 * min(degrees), len(graph.entities))))
    return ranks


_Formula = Callable[[int, int], int]  # of N and K
_UNIVERSAL: dict[str, tuple[tuple[str, str, _Formula], tuple[str, str, _Formula]]] = {
    "rescal": (
        ("N", "Theorem 5", lambda n, k: n),
        ("N", "Theorem 5; theory.counterexamples.below_n", lambda n, k: n),
    ),
    "hole": (
        ("2KN + 1", "Theorem 7", lambda n, k: 2 * k * n + 1),
        (
            "min{N(N + 1) − 2, 2K f(N) + 1}",
            "theory.slices: shared coordinates, inertia",
            lambda n, k: min(n * (n + 1) - 2, 2 * k * inertia_bound(n) + 1),
        ),
    ),
    "complex": (
        ("KN", "Theorem 7", lambda n, k: k * n),
        (
            "min{N(N + 1)/2, K f(N)}",
            "theory.slices: shared coordinates, inertia",
            lambda n, k: min(n * (n + 1) // 2, k * inertia_bound(n)),
        ),
    ),
}
_NO = {
    "distmult": ("Theorems 8 and 9", "its scores are symmetric"),
    "transe": ("Corollary 2, Theorem 10", "its diagonals are constant"),
}


def _universal(row: str, n: int, k: int) -> Cell:
    if row in _NO:
        return _never(row, "universal", *_NO[row])
    (paper, theorem, size), (formula, source, better) = _UNIVERSAL[row]
    optimal = row == "rescal"
    return Cell(
        row, "universal", paper, theorem, size(n, k), formula, source, better(n, k), optimal
    )


def _consistent(row: str, n: int, ranks: tuple[int, ...] | None) -> Cell:
    if row in _NO:
        return _never(row, "consistent", *_NO[row])
    paper, theorem, formula, source = _CONSISTENT[row]
    if ranks is None:
        return Cell(row, "consistent", paper, theorem, None, formula, source, None, False)
    old, new = paper_sizes(ranks, n)[row], sizes(ranks, n)[row]
    return Cell(row, "consistent", paper, theorem, old, formula, source, new, False)


_MADE = "theory.consistent_models"
_CONSISTENT = {
    "rescal": ("min{N, 2Σrr}", "Theorem 11", "min{N, 2Σrr}", "Theorem 11"),
    "hole": (
        "2 min{KN, 2Σrr} + 1",
        "Corollary 4",
        "min{N(N + 1) − 2, 2Σ min{⌈3rr/2⌉, f(N)} + 1} or less",
        _MADE,
    ),
    "complex": (
        "min{KN, 2Σrr}",
        "Theorem 12",
        "min{N(N + 1)/2, Σ min{⌈3rr/2⌉, f(N)}}",
        _MADE,
    ),
}


def _subsumes(row: str, column: str, r: int | None, k: int) -> Cell:
    """A cell that stands in the table of arrows."""
    between = [a for a in ARROWS if (a.source, a.target) == (column, row)]
    paper = next((a for a in between if a.kind == "paper"), None)
    tight = [a for a in between if a.kind == "tight" and (r or math.inf) <= a.most]
    if not tight:
        most = max((int(a.most) for a in between), default=0)
        unless = f", but r' if r' ≤ {most}" if most else ""
        return _never(row, column, "Theorems 2 and 8", _NO[row][1], unless)
    best = min(tight, key=lambda a: a.size(r, k)) if r is not None else tight[0]
    return Cell(
        row=row,
        column=column,
        paper=_primed(paper.size.text) if paper else NEVER if row in _NO else UNKNOWN,
        paper_source="Table 1",
        paper_value=paper.size(r, k) if paper and r is not None else None,
        formula=_primed(best.size.text),
        source=f"theory.conversions ({best.level})",
        value=best.size(r, k) if r is not None else None,
        optimal="K" not in best.size.text,
    )


def _never(row: str, column: str, paper_source: str, source: str, unless: str = "") -> Cell:
    return Cell(row, column, NEVER, paper_source, None, NEVER + unless, source, None, optimal=True)


def _primed(text: str) -> str:
    return text.replace("r", "r'")
