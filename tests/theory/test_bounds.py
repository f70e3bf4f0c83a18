"""Table 1, cell by cell, and the command that prints it."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import seeds
from typer.testing import CliRunner

from bilink.cli import app
from bilink.data.loading import load_graph
from bilink.errors import BilinkError
from bilink.theory.table1 import COLUMNS, ROWS, bounds, bounds_of, degree_ranks

# Table 1 for N = 100, K = 3, r' = 7 and rounding ranks 2, 3, 4, in the order of COLUMNS.
PAPER = {
    "rescal": (100, 18, 7, 7, 15, 7, 15),
    "hole": (601, 37, None, 7, 15, 15, None),
    "complex": (300, 18, None, 7, 7, 7, None),
    "distmult": (None, None, None, None, None, 7, None),
    "transe": (None, None, None, None, None, None, 7),
}
CORRECTED = {
    "rescal": (100, 18, 7, 7, 14, 7, 9),
    "hole": (2 * 3 * 84 + 1, 27, 3 * 6 * 2 + 1, 7, 15, 12, 16),
    "complex": (3 * 84, 14, 3 * 6, 4, 7, 7, 8),
    "distmult": (None, None, None, None, None, 7, None),
    "transe": (None, None, None, None, None, None, 7),
}


@pytest.mark.parametrize("row", ROWS)
def test_every_cell_has_the_papers_value_and_the_corrected_one(row):
    found = bounds(100, 3, 7, [2, 3, 4])
    for column, paper, corrected in zip(COLUMNS, PAPER[row], CORRECTED[row], strict=True):
        cell = found.cell(row, column)
        assert cell.paper_value == paper, column
        if (row, column) in {("hole", "rescal"), ("complex", "rescal")}:
            assert cell.value <= corrected
        else:
            assert cell.value == corrected, column
        assert cell.paper
        assert cell.source
        unknown = column in ("rescal", "transe") and row in ("hole", "complex")
        assert (cell.paper == "?") == unknown
        assert cell.paper_value is None or cell.value <= cell.paper_value


def test_small_sizes_have_their_own_cells():
    """Erratum 9: DistMult can do what RESCAL of size 1 and HolE of sizes 1 and 2 do."""
    assert [bounds(9, 2, r).cell("distmult", "hole").value for r in (1, 2, 3)] == [1, 2, None]
    assert [bounds(9, 2, r).cell("distmult", "rescal").value for r in (1, 2)] == [1, None]
    assert "r' ≤ 2" in bounds(9, 2).cell("distmult", "hole").formula
    assert bounds(9, 2, 1).cell("complex", "transe").value == 1
    assert bounds(9, 2, 2).cell("complex", "transe").value == 3
    assert bounds(9, 1).cell("rescal", "complex").value is None


def test_the_papers_lower_bound_is_empty_below_64_and_far_from_the_truth():
    """Errata 7 and 8."""
    assert bounds(63, 1).least_paper == 1
    assert bounds(1000, 1).least_paper == 31 < bounds(1000, 1).least["rescal"] == 125
    assert bounds(1000, 1).cell("rescal", "universal").optimal


@given(seed=seeds, n=st.integers(2, 7), degree=st.integers(0, 3))
def test_twice_the_degree_bounds_the_rounding_rank(seed, n, degree):
    """The polynomial of ``degree_ranks``, in exact arithmetic."""
    random = np.random.default_rng(seed)
    facts = np.zeros((n, n), dtype=bool)
    for row in facts:
        row[random.choice(n, min(n, degree), replace=False)] = True
    left = []
    for row in facts:
        coefficients = [Fraction(-1)]
        for t in np.flatnonzero(row) + 1:  # times (2x − 2t + 1)(2x − 2t − 1)
            for root in (2 * int(t) - 1, 2 * int(t) + 1):
                shifted = [Fraction(0), *(2 * c for c in coefficients)]
                down = [*(-root * c for c in coefficients), Fraction(0)]
                coefficients = [a + b for a, b in zip(shifted, down, strict=True)]
        constant = abs(coefficients[0])
        coefficients += [Fraction(0)] * (2 * min(n, degree) + 1 - len(coefficients))
        left.append([c / (2 * constant) for c in coefficients[1:]])
    right = [[Fraction(t) ** p for p in range(1, len(left[0]) + 1)] for t in range(1, n + 1)]
    made = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in right] for x in left]
    assert np.array_equal(np.array([[v > Fraction(1, 2) for v in row] for row in made]), facts)


def test_a_graph_brings_its_sizes_and_degrees():
    graph = load_graph("atlas")
    found = bounds_of(graph, 10)
    assert (found.entities, found.relations) == (len(graph.entities), len(graph.relations))
    assert found.rounding_ranks == tuple(degree_ranks(graph))
    assert found.cell("rescal", "consistent").value == 2 * sum(degree_ranks(graph))


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ((1, 1), "entities to be at least 2"),
        ((2, 0), "relations to be at least 1"),
        ((2, 1, 0), "dim to be at least 1"),
        ((2, 1, 1, [1, 2]), "as many rounding ranks"),
    ],
)
def test_impossible_sizes_get_a_sentence(wish, message):
    with pytest.raises(BilinkError, match=message):
        bounds(*wish)


def test_the_command_prints_a_table_and_json():
    run = CliRunner().invoke
    shown = run(app, ["theory", "bounds", "atlas", "--dim", "10"])
    assert shown.exit_code == 0, shown.output
    assert "RESCAL" in shown.stdout
    done = run(app, ["theory", "bounds", "--entities", "50", "--relations", "2", "--json"])
    found = json.loads(done.stdout)
    assert (found["entities"], len(found["cells"])) == (50, 35)
    for words in (
        ["atlas", "--entities", "3"],
        ["--entities", "3"],
        [],
        ["--entities", "3", "--relations", "1", "--search"],
    ):
        assert "either a graph or both" in str(run(app, ["theory", "bounds", *words]).exception)
    assert "no such" in str(run(app, ["theory", "bounds", "no/such.tsv"]).exception)


def test_the_command_can_search_for_lower_ranks(tmp_path):
    """By degrees a relation of all pairs looks hard; it is of rank 1."""
    data = tmp_path / "all.tsv"
    data.write_text("".join(f"a{i}\tr\tb{j}\n" for i in range(4) for j in range(5)))
    words = ["theory", "bounds", str(data), "--json"]
    simple, searched = (
        json.loads(CliRunner().invoke(app, [*words, *more]).stdout) for more in ([], ["--search"])
    )
    assert simple["rounding_ranks"] == [8]
    assert searched["rounding_ranks"] == [1]
