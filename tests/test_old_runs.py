"""Runs of version 0.1.0 stay readable and answer as they did; training moves as it did.

The fixtures were made by ``make_fixtures.py`` with the code of version 0.1.0, and those with rules
(``rules-1``) when paths were new.  Those of margin training were recorded again when Adagrad got
one epsilon; with the former one they had been the same bit for bit.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import bilink
from make_fixtures import answers_of, digest, trained_parameters

FIXTURES = Path(__file__).parent / "fixtures"
FOLDER = FIXTURES / "format-1"
ANSWERS = json.loads((FOLDER / "answers.json").read_text())
RULES = FIXTURES / "rules-1"
RULE_ANSWERS = json.loads((RULES / "answers.json").read_text())
NORMS = json.loads((FOLDER / "norms.json").read_text())
HASHES = json.loads((FOLDER / "hashes.json").read_text())


def same(found, wanted):
    """Equal but for the last digits, which differ between processors."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            same(found[key], wanted[key])
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b)
    else:
        assert found == (pytest.approx(wanted, 1e-4, 1e-6) if type(wanted) is float else wanted)


def without_probabilities(answers):
    """Version 0.1.0 ordered relations of two entities by their probabilities: any order here."""
    queries = {
        kind: [(*row[:4], row[5]) for row in (sorted(rows) if kind == "relation" else rows)]
        for kind, rows in answers["queries"].items()
    }
    return {**answers, "queries": queries}


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_an_old_run_answers_as_it_did(name, tmp_path):
    shutil.copytree(FOLDER / "runs" / name, tmp_path / name)
    run = bilink.load(tmp_path / name)
    assert run.judge is None  # probabilities of 0.1.0 were of another kind; calibrate learns ours
    same(without_probabilities(answers_of(run)), without_probabilities(ANSWERS[name]))


@pytest.mark.parametrize("name", sorted(RULE_ANSWERS))
def test_an_old_run_with_rules_answers_as_it_did(name, tmp_path):
    shutil.copytree(RULES / "runs" / name, tmp_path / name)
    run = bilink.load(tmp_path / name)
    same(without_probabilities(answers_of(run)), without_probabilities(RULE_ANSWERS[name]))
    assert all(len(model.rules) for model in run.path_models.values())


def test_an_old_run_that_was_stopped_goes_on(tmp_path):
    shutil.copytree(FOLDER / "runs" / "stopped", tmp_path / "stopped")
    run = bilink.resume(tmp_path / "stopped")
    whole = bilink.load(FOLDER / "runs" / "distmult")
    assert len(run.history) == len(whole.history)
    np.testing.assert_allclose(run.model.entities, whole.model.entities, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_training_moves_parameters_as_it_did():
    parameters = trained_parameters()
    assert parameters.keys() == NORMS.keys()
    for name, arrays in parameters.items():
        if digest(arrays) != HASHES[name]:  # another processor rounds and fuses differently
            norms = [float(np.linalg.norm(array)) for array in arrays]
            assert norms == pytest.approx(NORMS[name], 2e-2 if "rounded" in name else 1e-3), name
