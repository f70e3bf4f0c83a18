"""Commands where nothing may be written, where memory is short, and where a folder vanishes."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_cli import FAST, bilink, run  # noqa: F401

from bilink._memory import LIBRARIES

FACT = ["--head", "France", "--relation", "borders", "--tail", "Spain"]


def test_what_only_reads_works_on_a_disk_that_is_read_only(disk, run, tmp_path):  # noqa: F811
    folder, mount = disk
    mount("remount,size=100m")
    shutil.copytree(run, folder / "run")
    mount("remount,ro")
    there = folder / "run"
    for arguments, kept in (
        (["query", there, "--relation", "borders", "-k", 3], True),
        (["query", there, "--head", "France", "--relation", "borders"], True),
        (["explain", there, *FACT], True),
        (["evaluate", there], False),
        (["classify", there], False),
        (["export", there, "--out", tmp_path / "vectors"], True),
    ):
        done = bilink(*arguments, env={"PATH": "", "HOME": str(folder), "BILINK_CACHE": str(there)})
        assert done.returncode == 0, (arguments, done.stderr)
        assert ("the result is not kept" in done.stderr) != kept, arguments
    done = bilink("export", there, "--out", folder / "vectors")
    assert done.returncode == 1
    assert done.stderr == f"error: cannot write {folder}/vectors: Read-only file system\n"


def test_a_limit_that_libraries_cannot_live_with_is_a_sentence():
    resource = pytest.importorskip("resource", reason="this system does not limit addresses")

    def limit(most=int(LIBRARIES / 2)):
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    done = bilink("data", "describe", "atlas", preexec_fn=limit)
    assert done.returncode == 1
    assert "(ulimit -v), and the libraries of bilink need 2 GB" in done.stderr


def test_a_run_whose_folder_vanishes_ends(tmp_path):
    out = tmp_path / "run"
    command = ["train", "atlas", "--model", "transe", "--dim", "8", "--out", out, *FAST]
    command = [sys.executable, "-m", "bilink", *command, "--set", "epochs=100000"]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, **streams)
    history = Path(out, "history.jsonl")
    while not history.exists() and process.poll() is None:
        time.sleep(0.05)
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)  # what was just being written
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 1, errors
    assert f"the folder {out} is gone" in errors
