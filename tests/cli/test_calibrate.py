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
    assert "learnt without it" in done.stdout
    assert (tmp_path / "reliability.png").read_bytes().startswith(b"\x89PNG")
    assert (run / "probability.json").exists()


def test_calibrate_prints_json_alone(run):
    done = bilink("calibrate", run, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["positives"] > 100
    assert found["test"]["questions"] > 100
    assert abs(found["test"]["promised"] - found["test"]["right"]) < 0.15
    assert sum(part["count"] for part in found["test"]["bins"]) == found["test"]["questions"]


@pytest.mark.parametrize("wrong", [["--picture", "a.gif"], ["--plot", "a.gif"]])
def test_calibrate_explains_what_is_wrong(run, wrong):
    done = bilink("calibrate", run, *wrong)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
