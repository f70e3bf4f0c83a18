"""Table 1 of Wang et al. (2018), as printed and corrected, evaluated for given numbers.

A row is a family; its cells say from which size r on it is universal, consistent with a Boolean
tensor B, or subsumes another family of size r'.  All sizes suffice.  "Optimal" ones cannot be
smaller, if entities and relations are many enough: a smaller model would change some scores by more
than a constant for each relation.  The proof is by the ranks of slices and the spaces they span.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bilink.data.graph import Graph
from bilink.errors import ConfigError
from bilink.models.registry import family as find_family
from bilink.theory.consistent_models import paper_sizes, sizes
from bilink.theory.conversions import ARROWS
from bilink.theory.slices import inertia_bound

ROWS = ("rescal", "hole", "complex", "distmult", "transe")
COLUMNS = ("universal", "consistent", *ROWS)  # the last five: subsumes that family
NEVER, UNKNOWN = "no", "?"


@dataclass(frozen=True)
class Cell:
    """One cell of the table: the paper's formula and the corrected one, with source and value.

    A value is ``None`` where the formula is "no" or "?", or has a letter without a value.
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
    n, k, f = entities, relations, inertia_bound(entities)
    old = {"rescal": n, "hole": 2 * k * n + 1, "complex": k * n}
    new = {
        "rescal": n,
        "hole": min(n * (n + 1) - 2, 2 * k * f + 1),
        "complex": min(n * (n + 1) // 2, k * f),
    }
    cells = [_for_all(row, "universal", old, new) for row in ROWS]
    known = ({}, {}) if ranks is None else (paper_sizes(ranks, n), sizes(ranks, n))
    cells += [_for_all(row, "consistent", *known) for row in ROWS]
    cells += [_subsumes(row, column, dim, k) for row in ROWS for column in ROWS]
    return Bounds(
        entities=entities,
        relations=relations,
        dim=dim,
        rounding_ranks=ranks,
        cells=tuple(cells),
        least={row: warren_bound(row, n, k) for row in new},
        least_paper=paper_bound(n),
    )


def bounds_of(
    graph: Graph, dim: int | None = None, rounding_ranks: Sequence[int] | None = None
) -> Bounds:
    """Table 1 for a graph, by default with the rounding ranks that follow from its degrees."""
    ranks = degree_ranks(graph) if rounding_ranks is None else rounding_ranks
    return bounds(len(graph.entities), len(graph.relations), dim, ranks)


def degree_ranks(graph: Graph) -> list[int]:
    """An upper bound on the rounding rank of each relation, by degrees alone.

    2d is enough where no head has more than d tails, or no tail more than d heads: the facts of a
    row are then in d intervals of a line, on which a polynomial of degree 2d is positive.
    """
    triples = np.unique(graph.triples, axis=0)
    ranks = []
    for k in range(len(graph.relations)):
        pairs = triples[triples[:, 1] == k]
        degrees = [np.bincount(pairs[:, side]).max(initial=0) for side in (0, 2)]
        ranks.append(int(min(2 * min(degrees), len(graph.entities))))
    return ranks


def paper_bound(n: int) -> int:
    """Theorem 6: RESCAL of size ⌊N/32 − 1⌋ is not universal; this is one more, and at least 1.

    The proof shows more: such a model is not even consistent with every Boolean matrix.  It is off
    by one where 32 divides N.  For universality the exact bound is N: see
    ``counterexamples.below_n``.
    """
    return max(1, n // 32)


def warren_bound(name: str, n: int, k: int) -> int:
    """A size below which some Boolean tensor of N entities and K relations has no consistent model.

    Warren (1968): m polynomials of degree 3 in v ≤ m variables have at most (12em/v)ᵛ patterns of
    signs.  The polynomials here are the m = KN² scores minus thresholds, whose patterns must
    include all 2ᵐ Boolean tensors.  The variables are the thresholds and the model's parameters,
    without those that a change of basis makes superfluous.
    """
    m = k * n * n
    variables = {
        "rescal": lambda r: (n - r) * r + k * r * r + k,
        "complex": lambda r: 2 * r * (n - 1 + k) + k,
        "hole": lambda r: r * (n - 1 + k) + k,
    }[name]

    def enough(r: int) -> bool:
        v = variables(r)
        return v > m or v * math.log2(12 * math.e * m / v) >= m

    most = n if name == "rescal" else 2 * k * n + 1
    return 1 + bisect_left(range(1, most), True, key=enough)  # the patterns grow with r


# The paper's formula and theorem, then the corrected formula and its source.
_FORMULAS = {
    ("rescal", "universal"): ("N", "Theorem 5", "N", "Theorem 5; theory.counterexamples.below_n"),
    ("rescal", "consistent"): ("min{N, 2Σrr}", "Theorem 11", "min{N, 2Σrr}", "Theorem 11"),
    ("hole", "universal"): (
        "2KN + 1",
        "Theorem 7",
        "min{N(N + 1) − 2, 2K f(N) + 1}",
        "theory.slices: shared coordinates, inertia",
    ),
    ("hole", "consistent"): (
        "2 min{KN, 2Σrr} + 1",
        "Corollary 4",
        "min{N(N + 1) − 2, 2Σ min{⌈3rr/2⌉, f(N)} + 1} or less",
        "theory.consistent_models",
    ),
    ("complex", "universal"): (
        "KN",
        "Theorem 7",
        "min{N(N + 1)/2, K f(N)}",
        "theory.slices: shared coordinates, inertia",
    ),
    ("complex", "consistent"): (
        "min{KN, 2Σrr}",
        "Theorem 12",
        "min{N(N + 1)/2, Σ min{⌈3rr/2⌉, f(N)}}",
        "theory.consistent_models",
    ),
}
_NO = {
    "distmult": ("Theorems 8 and 9", "its scores are symmetric"),
    "transe": ("Corollary 2, Theorem 10", "its diagonals are constant"),
}


def _for_all(row: str, column: str, old: dict[str, int], new: dict[str, int]) -> Cell:
    """A cell about every ranking, or about the facts, from the paper's sizes and the corrected."""
    if row in _NO:
        return _never(row, column, *_NO[row])
    paper, theorem, formula, source = _FORMULAS[row, column]
    optimal = (row, column) == ("rescal", "universal")
    return Cell(row, column, paper, theorem, old.get(row), formula, source, new.get(row), optimal)


def _subsumes(row: str, column: str, r: int | None, k: int) -> Cell:
    """A cell that follows from the table of arrows."""
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
        paper=_primed(paper.formula) if paper else NEVER if row in _NO else UNKNOWN,
        paper_source="Table 1",
        paper_value=paper.size(r, k) if paper and r is not None else None,
        formula=_primed(best.formula),
        source=f"theory.conversions ({best.level})",
        value=best.size(r, k) if r is not None else None,
        optimal="K" not in best.formula,
    )


def _never(row: str, column: str, paper_source: str, source: str, unless: str = "") -> Cell:
    return Cell(row, column, NEVER, paper_source, None, NEVER + unless, source, None, optimal=True)


def _primed(text: str) -> str:
    return text.replace("r", "r'")
