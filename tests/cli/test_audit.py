"""bilink audit."""

import json

from test_cli import FAST, bilink


def test_audit_prints_a_table_json_and_a_file(tmp_path):
    run, out = tmp_path / "run", tmp_path / "doubts.csv"
    done = bilink("train", "atlas", "--model", "distmult", "--dim", 8, "--out", run, *FAST)
    assert done.returncode == 0, done.stderr
    done = bilink("audit", run, "-k", 3, "--folds", 2, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "11,321 facts" in done.stdout
    assert len(out.read_text().splitlines()) == 4
    done = bilink("audit", run, "-k", 3, "--folds", 2, "--json")  # from the same models
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [doubt["rank"] for doubt in found["doubts"]] == [1, 2, 3]
    for doubt in found["doubts"]:
        assert {"head", "relation", "tail", "probability", "suggestion", "side"} <= set(doubt)
    kept = json.loads((run / "audit" / "doubts.json").read_text())
    assert kept.pop("model")  # whose facts these are
    assert kept == found
    for wrong in (
        ["--folds", 1],
        ["-k", 0],
        ["--workers", "many"],
        ["--out", out],
        ["--out", "a.ttl"],
    ):
        done = bilink("audit", run, *wrong)
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert "Traceback" not in done.stderr
