"""The records study on a small graph."""

import tomllib
from pathlib import Path

import pytest

import bilink
from bilink.errors import ConfigError
from bilink.runs.paths import split_options
from bilink.training import MarginConfig, read_config
from conftest import random_graph
from study import records
from study.wang2018 import Hooks, Study, is_paths, path_options

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "study/results/records"
GRAPHS = ("wn18", "fb15k", "wn18rr", "fb15k-237")
SETTINGS = {
    "C": {"model": "complex", "dim": 4, "epochs": 2, "loss": "softmax", "negatives": 0},
    "T": {"model": "transe", "dim": 4, "epochs": 2},
}


@pytest.fixture
def study(tmp_path, monkeypatch):
    graph = random_graph(n_entities=30, n_relations=3, size=200)
    monkeypatch.setattr(bilink, "load_graph", lambda data: graph)
    return Study(
        "nations",
        records.RECIPE,
        out=tmp_path / "out",
        work=tmp_path / "work",
        settings=SETTINGS,
        command="bilink study records --data nations",
    )


def test_the_recorded_settings_are_valid():
    for data in GRAPHS:
        for letter, options in records.record_settings(data).items():
            if letter == "P":
                assert split_options(path_options(options))
                continue
            assert {"model", "dim"} <= set(options)
            training = {key: x for key, x in options.items() if key not in ("model", "dim")}
            assert MarginConfig().with_options(training).loss == "softmax"
    with pytest.raises(ConfigError, match="no settings for 'umls'"):
        records.record_settings("umls")


def test_models_one_by_one_and_then_their_ensemble(study):
    records.run_records(study, ["C"])
    board = records.leaderboard(study)
    assert "**ComplEx**" in board
    assert "TransE" not in board
    records.run_records(study)
    board = records.leaderboard(study)
    assert "**TransE + ComplEx**" in board
    assert "`bilink study records --data nations`" in board
    with pytest.raises(ConfigError, match="no settings for 'X', but for C, T"):
        records.run_records(study, ["X"])


def test_paths_are_a_member_and_what_they_add_is_tested(study):
    study.settings = {**SETTINGS, "P": {"model": "paths", "length": 2}}
    records.run_records(study)
    board = records.leaderboard(study)
    for title in ("paths", "TransE + ComplEx", "TransE + ComplEx + paths"):
        assert f"**{title}**" in board
    assert "T+C (stack)" in study.read("T+C+P (stack)")["against"]
    study.settings = {**SETTINGS, "P": {"model": "paths", "length": 1}}
    assert "paths" not in records.leaderboard(study)  # counted otherwise


def test_a_model_that_was_done_with_other_settings_is_no_member(study, tmp_path):
    records.run_records(study)
    distmult = {**SETTINGS["C"], "model": "distmult", "dim": 3}
    changed = {**SETTINGS, "T": {**SETTINGS["T"], "epochs": 3}, "D": distmult}
    again = Study(
        "nations", records.RECIPE, out=tmp_path / "out", work=tmp_path / "work", settings=changed
    )
    records.run_records(again, ["D"])
    assert (again.out / "D+C (stack)").exists()
    board = records.leaderboard(again)
    assert "**DistMult + ComplEx**" in board
    assert "TransE" not in board
    assert len((again.work / "T" / "history.jsonl").read_text().splitlines()) == 2


def test_the_picture_shows_each_model_the_ensemble_and_the_figures_of_others(study, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    records.run_records(study)
    (study.out / "C" / "way.json").write_text('{"way": [[1, 0.1, 0.2, 0.3], [2, 0.2, 0.4, 0.5]]}')
    study.data = "fb15k"
    (axis,) = records.records_figure(study).axes
    rows = {name: records.row_of(study, name) for name in ("C", "T", "T+C (stack)")}
    names = {"C": "ComplEx", "T": "TransE", "T+C (stack)": "all together"}
    ranked = sorted(rows, key=lambda name: -rows[name].mrr)
    legend = [text.get_text() for text in axis.get_legend().get_texts()]
    assert legend == [f"{names[name]} {rows[name].mrr:.3f}" for name in ranked]
    curves = {}
    for line in axis.lines:
        key = (line.get_color(), line.get_linestyle(), line.get_marker())
        curves.setdefault(key, []).append(list(zip(*line.get_data(), strict=True)))
    complex_, transe, ensemble = (records._COLOURS.get(name, records._ENSEMBLE) for name in rows)
    assert curves.pop((complex_, "-", "None")) == [[(0.1, 0.2), (0.2, 0.4)]]
    for name, colour, marker in zip(rows, (complex_, transe, ensemble), "oo*", strict=True):
        assert curves.pop((colour, "None", marker)) == [[(rows[name].minutes, rows[name].mrr)]]
    for name, colour in (("C", complex_), ("T", transe)):
        (validated,) = curves.pop((colour, "--", "None"))
        assert validated == records.validations(study.out / name)
        assert [mrr > 0 for _, mrr in validated] == [True, True]
        assert validated[0][0] < validated[1][0]
    others = records.published_records("fb15k")
    ((_, lines),) = curves.items()
    assert [line[0][1] for line in lines] == [row.mrr for row in others]
    assert {text.get_text() for text in axis.texts} == {
        f"{row.title}, {row.parameters}: {row.mrr:.3f}" for row in others
    }
    records.draw_records(study, tmp_path / "board.png")
    assert (tmp_path / "board.png").read_bytes().startswith(b"\x89PNG")


# -- what is committed -----------------------------------------------------------------------------


def committed(data):
    return records.record_study(data, out=RESULTS, work=Path("nowhere"))


@pytest.mark.parametrize("data", GRAPHS)
def test_committed_records_were_made_by_the_committed_settings(data):
    study = committed(data)
    for letter in records.done_models(study):
        made = tomllib.loads((study.out / letter / "config.toml").read_text())
        options = dict(study.settings[letter])
        if is_paths(options):
            # options that came later have their defaults
            assert split_options(made["paths"]) == split_options(path_options(options))
            continue
        model = {"name": options.pop("model"), "dim": options.pop("dim")}
        assert made["model"] == model
        training = MarginConfig().with_options(options)
        assert read_config(made["training"]) == training


@pytest.mark.realdata
@pytest.mark.filterwarnings("ignore::bilink.errors.DataWarning")
@pytest.mark.parametrize("data", GRAPHS)
def test_committed_records_are_not_made_again(data, real_data, tmp_path, monkeypatch):
    said = []
    hooks = Hooks(said.append, should_stop=lambda: True)
    study = records.record_study(data, out=RESULTS, work=tmp_path, hooks=hooks)
    monkeypatch.setattr(bilink, "__version__", study.read("C")["bilink"])
    records.run_records(study)
    assert said == []


def test_the_leaderboard_is_that_of_the_committed_figures(tmp_path):
    studies = records.all_records(out=RESULTS, work=tmp_path)
    assert {study.data for study in studies} == set(GRAPHS)
    board = (RESULTS / "leaderboard.md").read_text(encoding="utf-8")
    assert board == records.page(studies)
    assert "**DistMult (reciprocal)**" in board  # a label names its variant


def minutes_of(row):
    return f"{row.minutes:.0f}" if row.minutes >= 1 else f"{row.minutes:.1f}"


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_the_tables_of_the_pages_are_those_of_the_committed_figures(page):
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    tables = {line.split(" |")[0]: line.split("|")[1:] for line in lines if line.startswith("| ")}
    for column, data in enumerate(GRAPHS, start=1):
        study = committed(data)
        for piece in records.pieces_of(study):
            row = records.row_of(study, piece)
            title = "| the five and `paths`" if "P" in piece else "| ensemble of the five"
            if (config := study.out / piece / "config.toml").exists():
                model = tomllib.loads(config.read_text())["model"]
                title = "| `{name}`, {dim}".format(**model) if "dim" in model else "| `paths`"
            mr = [f"{row.mr:,.0f}"] if page == "docs/results.md" else []
            figures = [f"{row.mrr:.3f}", f"{100 * row.hits_at_10:.1f}", *mr, minutes_of(row)]
            assert tables[title][column].strip() == " / ".join(figures), (data, piece)
