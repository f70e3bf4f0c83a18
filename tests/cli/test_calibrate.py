"""bilink calibrate."""

import json

import pytest
from test_cli import FAST, bilink


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate") / "run"
    done = bilink("train", "atlas", "--model", "distmult", "--dim", 16, "--out", folder, *FAST)
    assert done.returncode == 0, done.stderr
    return folder


def test_calibrate_prints_a_table_and_draws_a_picture(run, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    done = bilink("calibrate", run, "--picture", tmp_path / "reliability.png")
    assert done.returncode == 0, done.stderr
    assert "a line per relation" in done.stdout
    assert (tmp_path / "reliability.png").read_bytes().startswith(b"\x89PNG")
    assert (run / "calibration.json").exists()


def test_calibrate_prints_json_alone(run):
    done = bilink("calibrate", run, "--prior", 0.1, "--method", "isotonic", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["prior"] == 0.1
    for asked in ("facts", "answers"):
        results = found[asked]["results"]
        assert set(results) == {"sigmoid", "global", "isotonic"}
        for result in results.values():
            assert {"ece", "ece_within_relations", "brier", "log_loss", "bins"} <= set(result)


@pytest.mark.parametrize(
    "wrong", [["--prior", 2], ["--method", "magic"], ["--picture", "a.gif"], ["--plot", "a.gif"]]
)
def test_calibrate_explains_what_is_wrong(run, wrong):
    done = bilink("calibrate", run, *wrong)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
