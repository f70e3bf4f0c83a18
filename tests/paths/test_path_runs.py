"""Runs of paths: made, kept, asked, combined, audited, explained, on the command line too."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import bilink
from bilink.cli import app
from bilink.errors import ConfigError, RunError
from bilink.runs import paths
from bilink.runs.paths import PathRun, preview_paths

OPTIONS = {"length": 2}


@pytest.fixture(scope="module")
def atlas():
    return bilink.load_graph("atlas")


@pytest.fixture(scope="module")
def run(atlas, tmp_path_factory):
    return bilink.train(
        atlas, model="paths", options=OPTIONS, out=tmp_path_factory.mktemp("r") / "p"
    )


@pytest.fixture(scope="module")
def both(run, atlas):
    model = bilink.train(atlas, "complex", 20, epochs=15, threads=1)
    return bilink.combine([model, run])


def test_a_folder_gives_the_same_answers(run):
    again = bilink.load(run.path)
    assert isinstance(again, PathRun)
    assert again.config == run.config
    question = {"head": "Austria", "relation": "borders"}
    assert again.query(**question).to_dict() == run.query(**question).to_dict()
    assert again.query(**question, new=True)[0].probability is not None
    with pytest.raises(RunError, match="mined and not trained"):
        bilink.resume(run.path)


def test_it_knows_the_atlas(run):
    """Counted in a second, better than ComplEx of dim 100 after its training (0.66)."""
    assert run.evaluate("valid").metrics()["mrr"] > 0.6


def test_all_kinds_of_questions(run, both):
    for each in (run, both):
        assert each.query(head="Germany", relation="borders", k=3)[0].label
        assert each.query(tail="Euro", relation="uses currency", new=True, k=3)[0].known is False
        assert each.query(head="Paris", tail="France", k=3)[0].relation in (
            "capital of",
            "in country",
        )
        pairs = each.query(relation="borders", new=True, k=5)
        chances = [a.probability for a in pairs]
        assert (np.diff(chances) < 1e-9).all()
        own = each.score([(a.head, a.relation, a.tail) for a in pairs])
        np.testing.assert_allclose([a.score for a in pairs], own, rtol=1e-4)
        assert len(each.query(new=True, k=4)) == 4


def test_an_ensemble_is_kept_with_its_rules(tmp_path):
    made = bilink.combine(
        [
            bilink.train("atlas", "distmult", 8, epochs=2),
            bilink.train("atlas", "paths", options=OPTIONS),
        ],
        out=tmp_path / "e",
    )
    again = bilink.load(tmp_path / "e")
    question = {"head": "Austria", "relation": "borders"}
    assert again.query(**question).to_dict() == made.query(**question).to_dict()
    assert set(again.path_models) == {"paths"}


def test_paths_make_an_ensemble_better(run, both):
    found = {
        name: each.evaluate("valid").metrics()["mrr"]
        for name, each in (("paths", run), ("both", both))
    }
    assert found["both"] > found["paths"]


def test_classify_audit_and_new_entities(run, tmp_path):
    assert run.classify("test").to_dict()["accuracy"] > 0.8
    doubts = bilink.audit(run, k=5, work=tmp_path / "audit", folds=2)
    assert len(doubts.to_dict()["doubts"]) == 5
    facts = [("Freedonia", "borders", "Austria"), ("Austria", "borders", "Freedonia")]
    more = run.update([*facts, ("Freedonia", "uses currency", "Euro")]).run
    answers = more.query(head="Freedonia", relation="official language", k=5)
    assert "German" in [answer.label for answer in answers]


def test_rules_are_read_and_explained(run, both):
    best = run.rules("borders", k=1)[0]
    assert (best.head, best.body) == ("X borders Y", "Y borders X")
    assert best.confidence == pytest.approx(best.support / (best.groundings + 5))
    found = both.explain("Austria", "borders", "Germany")
    assert found.rules[0].evidence == [("Germany", "borders", "Austria")]
    assert {member.name for member in found.members} == {"complex", "p"}
    wrong = run.explain("Austria", "in country", "Peru")
    for other in wrong.against:
        assert other.rule.confidence > (wrong.rules[0].confidence if wrong.rules else 0)
    with pytest.raises(ConfigError, match="has no rules"):
        bilink.train("atlas", "distmult", 4, epochs=1).rules()


def test_what_a_graph_gives_away(atlas):
    found = preview_paths(atlas)
    assert {"borders", "has capital"} <= {row["relation"] for row in found.given_away}
    assert 0 < found.mrr < 1
    assert "short paths alone" in found.sentences()[0]


def test_commands(tmp_path):
    console = CliRunner()

    def call(*words):
        done = console.invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return done.stdout

    folder = str(tmp_path / "run")
    call("train", "atlas", "--model", "paths", "--set", "length=1", "--out", folder)
    rules = json.loads(call("rules", folder, "--relation", "borders", "-k", "2", "--json"))["rules"]
    assert rules[0]["sentence"].startswith("X borders Y ← Y borders X, 0.9")
    assert "X borders Y ← Y borders X" in call("rules", folder)
    shown = json.loads(
        call(
            "explain",
            folder,
            "--head",
            "Austria",
            "--relation",
            "borders",
            "--tail",
            "Germany",
            "--json",
        )
    )
    assert shown["rules"]
    assert json.loads(call("data", "describe", "atlas", "--json"))["paths"]["given_away"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--set", "length=9"], "length must be at least 1 and at most 3"),
        (["--set", "aggregation=mean"], "aggregation must be one of"),
        (["--dim", "10"], "takes a graph and --set options of its own"),
    ],
)
def test_bad_options_on_the_command_line(words, sentence, tmp_path):
    done = CliRunner().invoke(
        app, ["train", "atlas", "--model", "paths", *words, "--out", str(tmp_path / "r")]
    )
    assert isinstance(done.exception, ConfigError)
    assert sentence in str(done.exception)
    assert not np.any(list(tmp_path.iterdir()))


def test_the_preview_of_a_large_graph_counts_single_steps_and_says_so(atlas, monkeypatch):
    wanted = preview_paths(atlas)
    monkeypatch.setattr(paths, "_TWO_STEPS", 10)
    found = preview_paths(atlas)
    assert (wanted.length, found.length) == (2, 1)
    assert found.given_away == wanted.given_away  # by paths of one step
    assert 0 < found.paths < wanted.paths
    assert (found.triples, found.mrr, found.hits10) == (0, None, None)
    assert found.sentences()[0].startswith("paths of one step only, not ranked")
