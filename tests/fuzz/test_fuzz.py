"""A bounded run of each fuzzer, and what the harness calls a failure."""

import gzip
import os
import signal
import time
import warnings

import harness
import pytest
from harness import Case, Seed, Target, find_target, fuzz, make_case, outcome, save_failures

from bilink.data.limits import most_bytes
from bilink.errors import DataError, DataWarning

TARGETS = {  # cases of each
    "graphs": 300,
    "run_folders": 300,
    "configs": 100,
    "spaces": 100,
    "questions": 100,
}


def names():
    return list(TARGETS)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", names())
def test_what_is_mutated_is_accepted_or_refused_in_a_sentence(name, tmp_path):
    report = fuzz(name, range(TARGETS[name]), workers=2)
    save_failures(name, 0, report, tmp_path)
    assert not report.failures, f"{report}; see {tmp_path}"
    assert report.counts["accepted"] > 0
    assert report.counts["refused"] > 0


@pytest.mark.parametrize("name", names())
def test_a_case_is_the_same_whenever_it_is_made(name):
    target = find_target(name)
    for number in range(40):
        assert make_case(target, 7, number) == make_case(target, 7, number)


def test_seeds_of_graphs_are_valid_but_for_the_bomb(tmp_path, monkeypatch):
    target = find_target("graphs")
    for key, value in target.environment.items():
        monkeypatch.setenv(key, value)
    bomb = next(seed for seed in target.seeds if "bomb" in seed.name)
    (packed,) = bomb.content.values()
    assert len(gzip.decompress(packed)) > 2 * most_bytes() == 128_000_000
    for seed in target.seeds:
        path = Case(seed, seed.content).write(tmp_path / seed.name)
        expected = "refused" if "bomb" in seed.name else "accepted"
        assert outcome(target.run, path) == (expected, ""), seed.name


def hang(path):
    time.sleep(60)


def kill(path):
    os.kill(os.getpid(), signal.SIGKILL)


def grow(path):
    kept = b"x" * (400 << 20)
    time.sleep(5)
    return kept


def crash(path):
    raise KeyError("x")


def long_message(path):
    error = DataError("")
    error.args = ("x" * 5000,)  # as if nothing shortened it
    raise error


def warn(path):
    warnings.warn("overflow", RuntimeWarning, stacklevel=1)


def refuse(path):
    warnings.warn("odd", DataWarning, stacklevel=1)
    raise DataError(f"{path}:1: no")


WAYS = {f.__name__: f for f in (hang, kill, grow, crash, long_message, warn, refuse)}


def one_way(path):
    """As the name of the file says, which is not mutated; not while the worker starts."""
    if path.read_bytes() != b"valid":
        WAYS[path.name](path)


TARGET = Target("test_fuzz", [Seed(name, {name: b"valid"}, False) for name in WAYS], one_way)


def test_the_harness_notices_each_kind_of_failure_and_goes_on(monkeypatch, tmp_path):
    monkeypatch.setattr(harness, "SECONDS", 3)
    monkeypatch.setattr(harness, "MEMORY", 300 << 20)
    cases = []
    for i, seed in enumerate(TARGET.seeds):
        numbers = range(i, 100, len(WAYS))
        cases.append(next(n for n in numbers if make_case(TARGET, 0, n).content != seed.content))
    report = fuzz("test_fuzz", cases)
    found = {list(WAYS)[n % len(WAYS)]: kind for n, kind, _ in report.failures}
    assert found == {
        "hang": "hang",
        "kill": "killed",
        "grow": "memory",
        "crash": "traceback",
        "long_message": "message",
        "warn": "traceback",
    }
    assert report.counts["refused"] == 1
    save_failures("test_fuzz", 0, report, tmp_path)
    assert len(list(tmp_path.glob("*/input/*"))) == len(found)
