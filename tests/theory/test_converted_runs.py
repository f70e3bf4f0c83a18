"""Trained runs, converted along every arrow, rank as they did before."""

import json
import tomllib

import numpy as np
import pytest
from reference import NAMES
from typer.testing import CliRunner

import bilink
from bilink.cli import app
from bilink.data.graph import COLUMNS
from bilink.errors import BilinkError, RunError
from bilink.evaluation.entity_ranking import rank_entities
from bilink.models.model import Model
from bilink.models.storage import load_model, save_model
from bilink.runs.made import convert_run
from bilink.theory.conversions import ARROWS, convert

DIM = {"rescal": 4}
SIDES = ("head", "tail")
NEAR = 1e-6  # of the spread of a query's scores: what a refinement in double precision resolves


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    options = {"epochs": 3, "threads": 1, "validation_triples": 0}
    for name in NAMES:
        decay = 1.0 if name == "transe" else 0.97  # so that scores have a spread after few epochs
        settings = {**options, "decay": decay}
        bilink.train("atlas", name, DIM.get(name, 10), out=folder / name, options=settings)
    return folder


def possible():
    between = [a for a in ARROWS if a.source in NAMES and a.source != a.target and a.most > 9]
    return sorted({(a.source, a.target, a.kind) for a in between})


@pytest.mark.parametrize(("source", "target", "kind"), possible())
def test_a_converted_run_has_the_same_mrr_and_ranks(trained, tmp_path, source, target, kind):
    out = tmp_path / "run"
    certificate = convert_run(trained / source, target, out, construction=kind)
    was, now = bilink.load(trained / source), bilink.load(out)
    assert now.model.entities.dtype == np.float64
    assert (now.config.model, now.config.dim) == (target, certificate.dim)
    assert now.history == was.history
    double = Model(
        was.model.family,
        was.model.dim,
        *(x.astype(np.float64) for x in (was.model.entities, was.model.relations)),
    )
    before, after = rank_entities(double.scorer, was.graph), now.evaluate()
    if kind == "refinement":
        assert certificate.deviation < NEAR / 2
        for side in SIDES:
            near = near_the_answer(double, now.model, was.graph, side)
            moved = abs(before.values(side) - after.values(side))
            assert (moved <= near).all()  # in particular, none where no candidate is near
            assert np.mean(moved > 0) < 0.01
            assert np.mean(near > 0) < 0.05  # else little was checked
        return
    mrr = pytest.approx(was.evaluate().metrics()["mrr"], abs=1e-6)
    assert after.metrics()["mrr"] == mrr
    assert certificate.deviation < 1e-12
    for side in SIDES:
        for part in ("above", "level", "options"):
            was_part, now_part = (getattr(x.ranks[side], part) for x in (before, after))
            np.testing.assert_array_equal(was_part, now_part)


def near_the_answer(double, made, graph, side):
    """How many candidates of each test query are too near to its answer to be told apart.

    A refinement has the scores of TransE up to a constant and a small error, which is checked here.
    The constant is large, since its sphere must be nearly flat and its angles small: scores of
    size 1e10 have a spread of 10, and doubles of that size are 2e-6 apart.  So candidates whose
    scores differ by less may tie, which moves a rank by half a position, or change places.
    """
    given, answer = COLUMNS[side]
    asked = graph.test[:, given], graph.test[:, 1]
    old, new = (model.scorer.scores(side, *asked) for model in (double, made))
    spread = np.ptp(old, axis=1, keepdims=True)
    assert (np.ptp(new - old, axis=1, keepdims=True) < NEAR * spread).all()
    answers = np.take_along_axis(old, graph.test[:, answer, None], axis=1)
    return np.count_nonzero(abs(old - answers) < NEAR * spread, axis=1) - 1


def test_the_command_converts_and_the_others_work_on_the_result(trained, tmp_path):
    run, out = CliRunner().invoke, tmp_path / "run"
    words = ["theory", "convert", str(trained / "transe"), "--to", "rescal", "--out", str(out)]
    done = run(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["dim"], found["level"], found["construction"]) == (12, "scores", "tight")
    table = tomllib.loads((out / "config.toml").read_text())
    assert table["model"] == {"name": "rescal", "dim": 12}
    assert table["made"]["source"] == "transe"
    assert table["made"]["run"] == str(trained / "transe")
    evaluated = run(app, ["evaluate", str(out), "--json"])
    assert evaluated.exit_code == 0, evaluated.output
    asked = ["--head", "Austria", "--relation", "borders", "--json"]
    answers = [run(app, ["query", str(path), *asked]) for path in (out, trained / "transe")]
    mine, theirs = ([a["tail"] for a in json.loads(x.stdout)["answers"]] for x in answers)
    assert mine == theirs
    again = run(app, [*words, "--force", "--construction", "paper", "--dim", "30"])
    assert again.exit_code == 0, again.output
    assert "RESCAL of size 30" in again.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "distmult"], "out of its reach"),
        (["--to", "rescal", "--dim", "3"], "below the bound"),
        (["--to", "rescal", "--construction", "small"], "one of paper, tight"),
        (["--to", "nothing"], "unknown model"),
    ],
)
def test_impossible_wishes_leave_no_folder_behind(trained, tmp_path, words, message):
    out = tmp_path / "run"
    done = CliRunner().invoke(
        app, ["theory", "convert", str(trained / "complex"), "--out", str(out), *words]
    )
    assert message in str(done.exception)
    assert not out.exists()


def test_a_run_is_not_converted_onto_itself_and_not_resumed(trained, tmp_path):
    with pytest.raises(RunError, match="choose another"):
        convert_run(trained / "hole", "rescal", trained / "hole", force=True)
    convert_run(trained / "hole", "rescal", tmp_path / "run")
    with pytest.raises(RunError, match="cannot go on"):
        bilink.resume(tmp_path / "run")


def test_double_precision_lasts_from_the_file_to_the_ranks(tmp_path):
    """Two tails whose scores differ by 1e-13 are told apart after saving and loading."""
    entities = np.array([[1.0], [1.0], [1.0 + 1e-13], [1.0 + 2e-13]])
    graph = bilink.graph_from_triples([("a", "r", "b"), ("a", "r", "c"), ("a", "r", "d")])
    model = Model(Model.empty("distmult", 1, 0, 0).family, 1, entities, np.ones((1, 1)))
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    ranks = rank_entities(again.scorer, graph, triples=np.array([[0, 0, 1], [0, 0, 3]]), filter=())
    assert ranks.values("tail").tolist() == [3.5, 1]
    through, _ = convert(model, "complex")
    ranks = rank_entities(
        through.scorer, graph, triples=np.array([[0, 0, 1], [0, 0, 3]]), filter=()
    )
    assert ranks.values("tail").tolist() == [3.5, 1]


def test_an_ensemble_is_rescal_of_the_summed_size(trained, tmp_path):
    """TransE of size r counts r + 2, ComplEx 2r, the others r."""
    members = [bilink.load(trained / name) for name in NAMES]
    both = bilink.combine(members, sides=False, shrinkage=1.0, out=tmp_path / "both")
    certificate = convert_run(tmp_path / "both", "rescal", tmp_path / "one")
    sizes = {"transe": 2, "complex": DIM.get("complex", 10)}
    assert certificate.dim == sum(DIM.get(n, 10) + sizes.get(n, 0) for n in NAMES)
    assert certificate.deviation < 1e-6  # the ensemble's members are in single precision
    now = bilink.load(tmp_path / "one")
    assert now.evaluate().metrics()["mrr"] == pytest.approx(
        both.evaluate().metrics()["mrr"], abs=1e-5
    )
    answers = [
        [a.tail for a in run.query(head="Austria", relation="borders", k=5)] for run in (both, now)
    ]
    assert answers[0] == answers[1]


def test_ensembles_that_are_no_single_form_are_refused(trained, tmp_path):
    members = [bilink.load(trained / name) for name in ("transe", "distmult")]
    bilink.combine(members, out=tmp_path / "sides", shrinkage=1.0)
    with pytest.raises(BilinkError, match="--same-sides"):
        convert_run(tmp_path / "sides", "rescal", tmp_path / "one")
    for options in ({"dim": 500}, {"construction": "paper"}):
        with pytest.raises(BilinkError, match="summed size"):
            convert_run(tmp_path / "sides", "rescal", tmp_path / "one", **options)
    bilink.combine(members, out=tmp_path / "platt", method="platt")
    with pytest.raises(BilinkError, match="no bilinear form"):
        convert_run(tmp_path / "platt", "rescal", tmp_path / "one")
