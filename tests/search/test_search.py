"""A search finds the best settings by the validation split, and can be ended at any moment."""

import json
import random
import signal
import subprocess
import sys
import tomllib
from dataclasses import replace

import pytest

import bilink
from bilink.data.loading import write_graph_files
from bilink.distributed import LocalExecutor
from bilink.errors import DataError, RunError, TrainingError
from bilink.search import make_space, search
from conftest import random_graph
from here import Here

pytest.importorskip("optuna", reason="optuna is not installed")
import bilink.search.trials as trials_module
from bilink.search.trials import Trials

FIXED = {"epochs": 4, "threads": 1, "model": "distmult"}
GRID = make_space(
    {
        "search": {"method": "grid"},
        "fixed": FIXED,
        "space": {"dim": [2, 4], "learning_rate": [0.05, 0.5]},
    }
)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A grid over two processes, searched once for several tests."""
    out = tmp_path_factory.mktemp("search") / "grid"
    return search(random_graph(), GRID, out, executor=LocalExecutor(2)), out


def test_a_grid_tries_each_point_once_and_each_value_is_that_of_an_ordinary_run(found):
    trials = found[0].report["trials"]
    points = {(trial["chosen"]["dim"], trial["chosen"]["learning_rate"]) for trial in trials}
    assert points == {(2, 0.05), (2, 0.5), (4, 0.05), (4, 0.5)}
    assert len(trials) == 4
    for trial in trials:
        run = bilink.train(
            random_graph(),
            "distmult",
            trial["chosen"]["dim"],
            options={"epochs": 4, "threads": 1, "learning_rate": trial["chosen"]["learning_rate"]},
        )
        ranking = run.evaluate("valid", filter=("train", "valid"))
        assert trial["metrics"] == ranking.metrics()
        assert trial["value"] == trial["metrics"]["mrr"]


def test_the_winner_is_the_best_on_valid_and_an_ordinary_run(found):
    result, out = found
    trials = result.report["trials"]
    assert result.best.value == max(trial["value"] for trial in trials)
    run = bilink.load(out / "best")
    settings = result.best.settings
    assert (run.config.model, run.config.dim) == ("distmult", settings["dim"])
    assert run.config.training.learning_rate == settings["learning_rate"]
    metrics = run.evaluate("valid", filter=("train", "valid")).metrics()
    assert result.report["retrained"]["metrics"] == metrics == result.best.metrics
    assert run.calibration is None  # its graph has too few validation facts


def test_the_report_has_settings_trials_and_a_picture(found):
    result, out = found
    assert json.loads((out / "report.json").read_text()) == result.report
    text = (out / "report.md").read_text()
    assert f"Best: trial {result.best.number}, mrr" in text
    assert "bilink train random --model distmult" in text
    assert text.count("| complete |") == 4
    assert set(result.report["importance"]) <= {"dim", "learning_rate"}
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert (out / "trials.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_search_again_repeats_nothing_and_another_is_refused(found):
    result, out = found
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.jsonl")}
    again = search(replace(random_graph(), name="moved"), GRID, out)
    assert again.report["trials"] == result.report["trials"]
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.jsonl")} == before
    with pytest.raises(RunError, match="holds another search"):
        search(random_graph(), replace(GRID, metric="mr"), out)
    with pytest.raises(RunError, match="holds another search"):
        search(random_graph(seed=1), GRID, out)
    with pytest.raises(RunError, match="something else"):
        search(random_graph(), GRID, out / "histories")


def test_the_test_split_has_no_influence(found, tmp_path):
    graph = random_graph()
    other = replace(graph, test=graph.train[:5])
    result = search(other, GRID, tmp_path / "out", executor=Here())
    assert [t["value"] for t in result.report["trials"]] == [
        t["value"] for t in found[0].report["trials"]
    ]


def test_a_graph_without_validation_triples_is_refused(graph, tmp_path):
    with pytest.raises(DataError, match="no validation triples"):
        search(replace(graph, valid=graph.valid[:0]), GRID, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_failures_are_kept_with_their_cause_and_the_rest_goes_on(graph, tmp_path):
    tables = {
        "search": {"method": "grid"},
        "fixed": {**FIXED, "loss": "margin", "constraint": "none", "optimizer": "sgd"},
        "space": {"learning_rate": [1e38, 0.1]},
    }
    result = search(graph, make_space(tables), tmp_path / "some", executor=Here())
    states = {t["chosen"]["learning_rate"]: t for t in result.report["trials"]}
    assert states[0.1]["state"] == "complete"
    assert states[1e38]["state"] == "failed"
    assert "training diverged" in states[1e38]["cause"]
    assert "training diverged" in (tmp_path / "some" / "report.md").read_text()
    tables["space"] = {"learning_rate": [1e38, 2e38]}
    with pytest.raises(TrainingError, match=r"none of the 2 trials .* training diverged"):
        search(graph, make_space(tables), tmp_path / "all", executor=Here())


def test_a_search_that_is_stopped_goes_on_and_can_be_made_longer(graph, tmp_path):
    space = make_space(
        {
            "search": {"method": "random", "pruning": False},
            "fixed": FIXED,
            "space": {"learning_rate": {"low": 0.1, "high": 1}},
        },
        trials=3,
    )
    ended = []
    stopped = search(
        graph,
        space,
        tmp_path / "out",
        executor=Here(),
        on_progress=lambda now: ended.append(now.ended),
        should_stop=lambda: max(ended) >= 1,
    )
    assert stopped.run is None
    assert ended[-1] < 3
    whole = search(graph, space, tmp_path / "out", executor=Here())
    assert whole.run is not None
    assert whole.report["trials"][0] == stopped.report["trials"][0]
    longer = search(graph, replace(space, trials=4), tmp_path / "out", executor=Here())
    assert longer.report["trials"][:3] == whole.report["trials"]
    drawn = [trial["chosen"]["learning_rate"] for trial in longer.report["trials"]]
    assert len(set(drawn)) == 4  # a resumed sampler does not draw the same again


def test_settings_that_were_tried_are_not_tried_again(graph, tmp_path):
    tables = {"search": {"method": "random"}, "fixed": FIXED, "space": {"dim": [2, 3]}}
    result = search(graph, make_space(tables, trials=8), tmp_path / "out", executor=Here())
    assert len(result.report["trials"]) == 8
    assert len(list((tmp_path / "out" / "histories").iterdir())) == 2
    copies = [trial for trial in result.report["trials"] if "same_as" in trial]
    assert len(copies) == 6
    for copy in copies:
        former = result.report["trials"][copy["same_as"]]
        assert (copy["state"], copy.get("value")) == (former["state"], former.get("value"))


@pytest.mark.parametrize("method", ["tpe", "random", "grid"])
@pytest.mark.parametrize("drawn", [0, 1, 2])
def test_a_trial_cut_short_while_it_is_drawn_is_drawn_as_it_would_have_been(
    drawn, method, tmp_path, monkeypatch
):
    numbers = list(range(1, 10))
    values = {"dim": numbers, "batch_size": numbers, "negatives": numbers}
    space = make_space({"search": {"method": method}, "fixed": FIXED, "space": values})
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    expected = Trials(whole, space).start(1)

    left = iter(range(drawn))

    def suggest_until_killed(*arguments, suggest=trials_module._suggest):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return suggest(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(trials_module, "_suggest", suggest_until_killed)
        with pytest.raises(KeyboardInterrupt):
            Trials(cut, space).start(1)
    assert Trials(cut, space).start(1) == expected


@pytest.mark.parametrize("metric", ["mrr", "mr"])
def test_the_worse_half_is_ended_early_whichever_way_the_metric_goes(metric, tmp_path):
    space = make_space(
        {"search": {"metric": metric}, "fixed": {"epochs": 100}, "space": {"dim": [1, 2, 3, 4]}}
    )
    trials = Trials(tmp_path, space)
    numbers = [trials.start(1).number for _ in range(3)]
    pruned = [
        trials.should_prune(number, {"epoch": epoch, "validation_mrr": mrr})
        for number, epoch, mrr in zip(
            numbers * 2, [19] * 3 + [20] * 3, [0.3, 0.1, 0.5] * 2, strict=True
        )
    ]
    assert pruned == [False, False, False, False, True, False]
    pruned = trials.prune_one(numbers[1], {"epoch": 20, "validation_mrr": 0.1})
    assert (pruned.state, pruned.value, pruned.validation_mrr) == ("pruned", None, 0.1)


def test_a_trial_cut_short_while_it_is_judged_is_judged_where_it_would_have_been(
    tmp_path, monkeypatch
):
    space = make_space({"fixed": {"epochs": 100}, "space": {"dim": [1, 2, 3, 4]}})
    trials = Trials(tmp_path, space)
    for mrr in (0.3, 0.5):
        number = trials.start(1).number
        assert not trials.should_prune(number, {"epoch": 20, "validation_mrr": mrr})
        trials.fail_one(number, "enough", 20)
    number = trials.start(1).number
    early, late = ({"epoch": epoch, "validation_mrr": 0.1} for epoch in (10, 20))
    assert not trials.should_prune(number, early)

    def be_killed(trial):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("optuna.Trial.should_prune", be_killed)
        with pytest.raises(KeyboardInterrupt):
            trials.should_prune(number, late)
    again = Trials(tmp_path, space)
    assert again.start(1).number == number
    assert [again.should_prune(number, record) for record in (early, late)] == [False, True]


def test_a_worker_that_dies_again_and_again_fails_the_trial(tmp_path):
    trials = Trials(tmp_path, GRID)
    first = trials.start(1)
    assert [trials.note_loss(first.number, "killed") for _ in range(3)] == [1, 2, 3]
    failed = trials.fail_one(first.number, "killed", 0)
    assert (failed.state, failed.cause, failed.lost) == ("failed", "killed", ("killed",) * 3)


# -- the command line, killed --------------------------------------------------------------------

SPACE = """
[search]
trials = 5
[fixed]
epochs = 150
threads = 1
patience = 0
[space]
model = ["distmult", "transe"]
dim = {low = 2, high = 8}
learning_rate = {low = 0.01, high = 1.0, log = true}
"""


# The search in its own process, which sends itself a signal at a commit to its database.
STOPPED = """
import os, sys
from pathlib import Path
from sqlalchemy import event
from sqlalchemy.engine import Engine
from bilink.cli import main

histories, ended, commits, signal = Path(sys.argv[1]), *map(int, sys.argv[2:5])
sys.argv[1:5] = []

@event.listens_for(Engine, "commit")
def stop(connection):
    global commits
    if len(list(histories.glob("*.jsonl"))) >= ended:
        commits -= 1
        if commits == 0:
            os.kill(os.getpid(), signal)

main()
"""


def command(folder, *more):
    places = [folder / "graph", "--space", folder / "space.toml", "--out", folder / "out"]
    return ["search", *map(str, [*places, *more])]


def run_bilink(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


def test_a_search_killed_at_random_ends_as_if_it_had_not_been(tmp_path):
    write_graph_files(random_graph(), tmp_path / "graph")
    (tmp_path / "space.toml").write_text(SPACE)
    graph = bilink.load_graph(tmp_path / "graph")
    space = make_space(tomllib.loads(SPACE))
    whole = search(graph, space, tmp_path / "whole", executor=Here())
    histories, chance = tmp_path / "out" / "histories", random.Random(1)
    for ended, number in ((0, signal.SIGKILL), (1, signal.SIGKILL), (2, signal.SIGINT)):
        # Once so many trials have ended; each takes about thirty commits.
        when = (histories, ended, chance.randint(1, 30), int(number))
        stopped = run_bilink("-c", STOPPED, *map(str, when), *command(tmp_path))
        assert stopped.returncode == (130 if number == signal.SIGINT else -number)
        assert "Traceback" not in stopped.stderr
    before = {path: path.stat().st_mtime_ns for path in histories.glob("*.jsonl")}
    assert 2 <= len(before) < 5
    done = run_bilink("-m", "bilink", *command(tmp_path, "--json"))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    kept = ("number", "state", "value", "settings", "metrics", "epochs")
    assert [{key: t.get(key) for key in kept} for t in report["trials"]] == [
        {key: t.get(key) for key in kept} for t in whole.report["trials"]
    ]
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    assert bilink.load(tmp_path / "out" / "best").config.dim == report["best"]["settings"]["dim"]


def test_a_bad_space_file_is_a_sentence_and_leaves_nothing_behind(tmp_path):
    (tmp_path / "space.toml").write_text("[space]\nmargin = {low = 1, high = 0.5}\n")
    (tmp_path / "graph").mkdir()
    done = run_bilink("-m", "bilink", *command(tmp_path))
    assert done.returncode == 1
    assert "[space] margin: the range from 1 to 0.5 is empty" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()
