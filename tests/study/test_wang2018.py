"""The study on a small graph: resumable, cached, and tables with both kinds of figures."""

import json
from pathlib import Path

import pytest

import bilink
from bilink.errors import ConfigError
from bilink.training import preset
from conftest import random_graph
from here import Here
from study import pictures, searching, tables, wang2018
from study.wang2018 import Hooks, Stopped, Study

RESULTS = Path(__file__).parents[2] / "study/results/wang2018"
TINY = {"epochs": 2, "threads": 1, "validation_triples": 10}


@pytest.fixture
def small(monkeypatch):
    """Whatever the graph is called, it is a small one."""
    graph = random_graph(n_entities=30, n_relations=3, size=200)
    monkeypatch.setattr(bilink, "load_graph", lambda data: graph)


@pytest.fixture
def tiny(monkeypatch, small):
    def settings(data, recipe):
        return {
            "R": {"model": "rescal", "dim": 3, **TINY},
            "H": {"model": "hole", "dim": 4, **TINY},
            "T": {"model": "transe", "dim": 4, **TINY},
        }

    monkeypatch.setattr(wang2018, "recorded_settings", settings)


def test_a_study_is_resumed_and_nothing_is_done_twice(tiny, tmp_path):
    said = []
    stop_after = 2

    def should_stop():
        return len(said) > stop_after

    places = {"out": tmp_path / "out", "work": tmp_path / "work"}
    with pytest.raises(Stopped):
        Study("atlas", "paper", **places, hooks=Hooks(said.append, None, should_stop)).run()
    assert 0 < len(said) <= 4
    first, said[:] = list(said), []
    stop_after = 10**6
    study = Study("atlas", "paper", **places, hooks=Hooks(said.append))
    study.run()
    titles = [text.partition(": ")[2] for text in first + said]
    assert len(titles) <= len(set(titles)) + 1  # at most the piece that was stopped
    before = {p: p.read_bytes() for p in (tmp_path / "out").rglob("metrics.json")}
    said.clear()
    Study("atlas", "paper", **places, hooks=Hooks(said.append)).run()
    assert said == []
    assert {p: p.read_bytes() for p in (tmp_path / "out").rglob("metrics.json")} == before
    names = {path.parent.name for path in before}
    assert {"R", "H", "T", "R+H+T (stack)", "R+H+T (platt)", "H+T (paper)"} <= names
    kept = json.loads((tmp_path / "out/atlas/paper/H/metrics.json").read_text())
    assert kept["valid"]["filter"] == ["train", "valid"]
    assert kept["test"]["filter"] == ["train", "valid", "test"]
    assert (tmp_path / "out/atlas/paper/H/config.toml").exists()
    text = tables.markdown([study])
    for part in (
        "HolE, paper",
        "R+H+T, paper (stack)",
        "in position",
        "sign-flip",
        "| atlas | 30 |",
    ):
        assert part in text
    check_pictures(study, tmp_path)
    assert pictures.draw([Study("atlas", "improved", **places)], tmp_path / "none") == []


def check_pictures(study, folder):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    drawn = pictures.draw([study], folder)
    assert [path.name for path in drawn] == ["ranking.png", "categories.png", "classification.png"]
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in drawn)
    found = list(tables.pieces([study]))
    hits, mrr, _ = pictures.figures([study])["ranking"].axes
    assert mrr.get_title() == "MRR (%)"
    assert [line.get_xdata()[0] for line in mrr.lines] == [
        100 * piece.found["test"]["both"]["mrr"] for piece in found
    ]
    names = [text.get_text() for text in hits.get_yticklabels()]  # the axes share them
    assert names == ["R+H+T", "H+T", "R+H", "R+T", "TransE", "HolE", "RESCAL"]
    rows = [names[int(line.get_ydata()[0])] for line in mrr.lines]
    assert rows == [wang2018.NAMES.get(piece.name, piece.name) for piece in found]


def test_a_piece_is_void_when_an_option_changes_and_not_when_a_default_is_given(tiny, tmp_path):
    plain = Study("atlas", "paper", out=tmp_path, work=tmp_path)

    def key(**options):
        settings = {"H": {**plain.settings["H"], **options}}
        return Study(
            "atlas", "paper", out=tmp_path, work=tmp_path, settings=settings
        )._determined_by(["H"])

    assert key(seed=0, margin=1.0) == key() == plain._determined_by(["H"])
    assert key(seed=1) != key()
    assert key(dim=7) != key()
    assert key(**{"regularization": {"entity": 0.5}}) != key()


def test_published_figures_stand_beside_ours(tiny, tmp_path, monkeypatch):
    study = Study("atlas", "paper", out=tmp_path / "out", work=tmp_path / "work")
    study.measure_model("H")
    study.data = "fb15k"
    text = tables._ranking([study])
    assert "| HolE, published | 72.6 | 50.2 | 331 |" in text
    assert "RESCAL" not in text  # not measured, not shown


def test_recorded_settings_can_be_trained():
    """Every line of settings.toml is one that a job accepts."""
    for recipe in wang2018.RECIPES:
        for data in ("wn18", "fb15k", "wn18rr", "fb15k-237"):
            if not wang2018.has_settings(data, recipe):
                continue
            for options in wang2018.recorded_settings(data, recipe).values():
                rest = {k: v for k, v in options.items() if k not in ("model", "dim")}
                assert options["dim"] <= 200
                assert preset("paper", options["model"]).with_options(rest).loss != "logistic"
    with pytest.raises(ConfigError, match="no settings for 'umls'"):
        wang2018.recorded_settings("umls", "paper")
    with pytest.raises(ConfigError, match="unknown recipe"):
        wang2018.recorded_settings("wn18", "best")


SPACE = """
models = ["T", "D"]
[search]
method = "grid"
[fixed]
epochs = 2
threads = 1
validation_triples = 10
regularization.entity = 0.01
[space]
dim = [2, 3]
[T.space]
margin = [0.5, 1.0]
[T.fixed]
dim = 4
"""


def test_settings_are_searched_kept_and_used(small, tmp_path):
    pytest.importorskip("optuna", reason="optuna is not installed")
    (tmp_path / "space.toml").write_text(SPACE)
    spaces = searching.read_spaces(tmp_path / "space.toml")
    assert (list(spaces), spaces["T"].size, spaces["D"].size) == (["T", "D"], 2, 2)
    said = []
    places = {"out": tmp_path / "out", "work": tmp_path / "work"}
    options = {"hooks": Hooks(said.append), "executor": Here()}
    study = searching.searched_study("atlas", spaces, **places, **options)
    study.run()
    assert sum("searching" in text for text in said) == 2
    assert not any("training" in text for text in said)  # the winners were trained by the search
    kept = searching.read_kept(tmp_path / "out/atlas/searched")
    assert kept["T"]["settings"] == study.settings["T"]
    assert (study.settings["T"]["model"], study.settings["T"]["dim"]) == ("transe", 4)
    trials = json.loads((tmp_path / "out/atlas/searched/T/search.json").read_text())["trials"]
    assert kept["T"]["value_on_valid"] == max(trial["value"] for trial in trials)
    measured = study.read("T")["valid"]["both"]["mrr"]
    assert measured == pytest.approx(kept["T"]["value_on_valid"], abs=1e-9)
    said.clear()
    searching.searched_study("atlas", spaces, **places, **options).run()
    assert said == []
    assert "TransE, searched" in tables.markdown([searching.kept_study("atlas", **places)])
    assert searching.kept_study("wn18", **places) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = ['X']\n[space]\ndim = [2]", "some of R, H, T"),
        ("[space]\nmodel = ['hole']", "take it out"),
        ("[space]\ndim = []", "RESCAL: .* empty"),
        ("[space]\ndim = [2]\n[H]\ntrials = 3", "H.fixed and H.space only"),
        ("[space]\ndim = [2]\n[H.space]\nfoo = [3]", "HolE: .*unknown option"),
        ("[space", "cannot be read"),
    ],
)
def test_a_space_that_cannot_be_searched_is_refused_first(text, message, tmp_path):
    (tmp_path / "space.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        searching.read_spaces(tmp_path / "space.toml")
    with pytest.raises(ConfigError, match="no space file"):
        searching.read_spaces(tmp_path / "none.toml")


def test_a_study_that_nobody_made_is_refused(tmp_path):
    places = {"out": tmp_path, "work": tmp_path}
    both = wang2018.studies_of("wn18rr", ["paper", "improved"], **places)
    assert [study.recipe for study in both] == ["improved"]
    with pytest.raises(ConfigError, match="no settings for 'wn18rr'"):
        wang2018.studies_of("wn18rr", ["paper"], **places)
    with pytest.raises(ConfigError, match="unknown recipe"):
        wang2018.studies_of("wn18rr", ["bogus"], **places)


@pytest.mark.realdata
@pytest.mark.filterwarnings("ignore::bilink.errors.DataWarning")
@pytest.mark.parametrize("data", ["wn18", "fb15k", "wn18rr", "fb15k-237"])
def test_committed_pieces_are_not_made_again(data, real_data, tmp_path, monkeypatch):
    said = []
    places = {"out": RESULTS, "work": tmp_path}
    hooks = Hooks(said.append, should_stop=lambda: True)
    studies = wang2018.studies_of(data, wang2018.RECIPES, **places, hooks=hooks)
    by_recipe = {study.recipe: study for study in studies}
    for piece in tables.pieces(studies):
        monkeypatch.setattr(bilink, "__version__", piece.found["bilink"])
        study = by_recipe[piece.recipe]
        if piece.method is None:
            study.measure_model(piece.name)
        else:
            study.measure_ensemble(piece.name.split("+"), piece.method)
    assert said == []
