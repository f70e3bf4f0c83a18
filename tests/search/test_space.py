"""A space file that cannot be searched is refused before the first trial, with the reason."""

import subprocess
import sys

import pytest

from bilink.errors import ConfigError
from bilink.search import make_space, read_space, search
from bilink.search.space import Range

GOOD = """
[search]
method = "random"
trials = 7
metric = "hits@10"

[fixed]
epochs = 3
"regularization.relation" = 0.5

[space]
model = ["TransE", "hole"]
dim = {low = 2, high = 8, step = 2}
learning_rate = {low = 0.01, high = 1, log = true}
margin = [1, 0.5]
regularization.entity = {low = 0, high = 0.1}
"""


def test_a_space_file_is_read_with_values_as_training_takes_them(tmp_path):
    (tmp_path / "space.toml").write_text(GOOD)
    space = read_space(tmp_path / "space.toml", trials=9, metric=None)
    assert (space.method, space.wanted, space.metric, space.prunes) == (
        "random",
        9,
        "hits@10",
        True,
    )
    assert space.fixed == {"epochs": 3, "regularization.relation": 0.5}
    assert space.choices["model"] == ("transe", "hole")
    assert space.choices["dim"] == Range(2, 8, step=2)
    assert space.choices["dim"].whole
    assert not space.choices["learning_rate"].whole
    assert space.choices["margin"] == (1.0, 0.5)
    assert space.choices["regularization.entity"] == Range(0.0, 0.1)
    assert make_space(space.to_dict()).to_dict() == space.to_dict()


def test_a_grid_tries_all_and_prunes_nothing_unless_asked_to():
    grid = {"search": {"method": "grid"}, "space": {"dim": [1, 2, 3], "margin": [1, 2]}}
    assert make_space(grid).wanted == 6
    assert not make_space(grid).prunes
    assert make_space(grid, trials=4).wanted == 4
    assert make_space({"space": {"dim": [1]}}).wanted == 20


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({"space": {"learning_rat": [1]}}, r"\[space\] unknown option .* mean 'learning_rate'"),
        ({"space": {"dim": [1]}, "fixed": {"epoch": 1}}, r"\[fixed\] unknown option 'epoch'"),
        ({"space": {"dim": [1]}, "search": {"trails": 1}}, r"\[search\] has no 'trails'"),
        ({"space": {"dim": [1]}, "spaces": {}}, "unknown part 'spaces'"),
        ({"space": 3}, "must be a table"),
        ({}, r"\[space\] is empty"),
        ({"space": {"dim": []}}, r"\[space\] dim: the list is empty"),
        ({"space": {"dim": 3}}, r"\[space\] dim: expected a list"),
        ({"space": {"dim": [2, 2]}}, "2 stands in the list twice"),
        ({"space": {"model": ["hole", "HolE"]}}, "'hole' stands in the list twice"),
        ({"space": {"dim": [0]}}, r"\[space\] dim must be a whole number from 1"),
        ({"space": {"dim": [2.5]}}, "dim must be a whole number"),
        ({"space": {"dim": {"low": 1.5, "high": 3}}}, "dim must be a whole number"),
        ({"space": {"model": ["tronse"]}}, r"\[space\] model: unknown model 'tronse'; did you"),
        ({"space": {"model": {"low": 1, "high": 2}}}, "model must be a list"),
        ({"space": {"dim": [1]}, "fixed": {"model": "x"}}, r"\[fixed\] model: unknown model"),
        ({"space": {"dim": [1]}, "fixed": {"model": 3}}, "a model has a name"),
        ({"space": {"margin": [1, -1]}}, r"\[space\] margin must be at least 0"),
        ({"space": {"margin": ["wide"]}}, "margin must be a number"),
        ({"space": {"margin": [[1]]}}, "expected one value"),
        ({"space": {"loss": ["hinge"]}}, "loss must be one of margin"),
        ({"space": {"loss": {"low": 1, "high": 2}}}, "loss must be one of margin"),
        ({"space": {"epochs": [0]}}, "epochs must be at least 1"),
        ({"space": {"dim": [1]}, "fixed": {"epochs": {}}}, r"\[fixed\] epochs: expected one value"),
        ({"space": {"dim": [1]}, "fixed": {"epochs": [1, 2]}}, r"\[fixed\] epochs: expected one"),
        ({"space": {"margin": {"low": 2, "high": 1}}}, "the range from 2 to 1 is empty"),
        ({"space": {"margin": {"low": 1, "high": 1}}}, "the range from 1 to 1 is empty"),
        ({"space": {"margin": {"low": -1, "high": 1}}}, "margin must be at least 0"),
        ({"space": {"margin": {"low": 0, "high": 1, "log": True}}}, "must start above 0"),
        ({"space": {"margin": {"low": 1, "high": float("inf")}}}, "high must be finite"),
        ({"space": {"margin": {"low": "a", "high": 1}}}, "low must be a number"),
        ({"space": {"margin": {"low": 1}}}, "a range needs low and high"),
        ({"space": {"margin": {"low": 1, "height": 1}}}, "not 'height'"),
        ({"space": {"margin": {"low": 1, "high": 2, "step": 9}}}, "step must be positive, within"),
        ({"space": {"dim": {"low": 1, "high": 9, "step": 0.5}}}, "step of a whole number"),
        ({"space": {"dim": [1]}, "fixed": {"dim": 2}}, "dim stands in"),
        ({"space": {"threads": [1, 2]}}, "threads changes speed, not quality"),
        ({"space": {"dim": [1]}, "search": {"method": "bayes"}}, "method must be one of grid"),
        ({"space": {"dim": [1]}, "search": {"metric": "f1"}}, "metric must be one of mrr"),
        ({"space": {"dim": [1]}, "search": {"trials": 0}}, "trials must be a whole number"),
        ({"space": {"dim": [1]}, "search": {"trials": "9"}}, "trials must be a whole number"),
        ({"space": {"dim": [1]}, "search": {"seed": -1}}, "seed must be a whole number"),
        ({"space": {"dim": [1]}, "search": {"pruning": 1}}, "pruning must be true or false"),
        (
            {"search": {"method": "grid"}, "space": {"margin": {"low": 1, "high": 2}}},
            "a grid needs a list",
        ),
        (
            {
                "search": {"method": "grid"},
                "space": {"dim": list(range(1, 999)), "seed": list(range(999))},
            },
            "the grid has 997,002 points",
        ),
    ],
)
def test_what_cannot_be_searched_is_refused_with_the_reason(tables, reason):
    with pytest.raises(ConfigError, match=reason):
        make_space(tables)


def test_the_complaint_names_the_file(tmp_path):
    path = tmp_path / "mine.toml"
    with pytest.raises(ConfigError, match="there is no space file at"):
        read_space(path)
    path.write_text("[space]\ndim = [")
    with pytest.raises(ConfigError, match=r"mine.toml cannot be read"):
        read_space(path)
    path.write_text("[space]\ndim = [-1]")
    with pytest.raises(ConfigError, match=r"mine.toml: \[space\] dim must be"):
        read_space(path)


def test_the_packages_load_neither_optuna_nor_ray():
    code = (
        "import sys, bilink.search, bilink.distributed; "
        "print([m for m in ('optuna', 'sqlalchemy', 'ray', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_optuna_a_search_says_what_to_install(graph, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"a search needs optuna; .* 'bilink\[search\]'"):
        search(graph, make_space({"space": {"dim": [1]}}), tmp_path / "out")
    assert not (tmp_path / "out").exists()
