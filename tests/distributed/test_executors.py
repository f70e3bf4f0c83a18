"""Where work runs does not change what comes out; a lost worker costs no result."""

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import distributed_jobs as jobs
import numpy as np
import pytest

import bilink
from bilink.distributed import LocalExecutor, RayExecutor, executor_for
from bilink.errors import ConfigError, WorkerError

HERE = str(Path(__file__).parent)
PATH = os.pathsep.join([HERE, *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster of two nodes, of which one can be killed."""
    ray = pytest.importorskip("ray", reason="ray is not installed")
    from ray.cluster_utils import Cluster

    size = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
    notice_quickly = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", PATH)  # for the workers
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "1")
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "_system_config": notice_quickly, **size},
        )
        cluster.mortals = [cluster.add_node(num_cpus=1, **size)]
    ray.init(cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(params=["local", "ray"])
def executor(request):
    if request.param == "local":
        return LocalExecutor(2, threads=1)
    return RayExecutor(request.getfixturevalue("cluster").address)


def test_map_gives_results_in_order(executor):
    assert list(executor.map(jobs.slow_first, range(4))) == [0, 1, 2, 3]
    assert list(executor.map(jobs.square, [])) == []


def test_map_ends_when_asked_to(executor):
    found = []
    for result in executor.map(jobs.square, range(50), lambda: len(found) == 3):
        found.append(result)
    assert found == [0, 1, 4]


def test_an_item_whose_worker_dies_is_given_to_another(executor, tmp_path):
    assert list(executor.map(partial(jobs.die_once, tmp_path), range(6))) == list(range(6))
    assert (tmp_path / "3").exists()


def test_an_item_that_kills_every_worker_is_an_error():
    with pytest.raises(
        WorkerError, match="item 1 was not done: its process was killed by signal 9"
    ):
        list(LocalExecutor(2, threads=1).map(jobs.die, [0]))


def test_failures_come_back_as_their_cause(executor):
    with pytest.raises(WorkerError, match=r"KeyError: 'missing' \(in distributed_jobs.py:"):
        list(executor.map(jobs.fail, ["unknown"]))


def test_our_own_errors_come_back_as_their_sentence():
    with pytest.raises(WorkerError, match="item 1 was not done: training diverged"):
        list(LocalExecutor(1, threads=1).map(jobs.fail, ["known"]))


def test_tasks_report_in_order_and_end_when_asked_to(executor):
    with executor.start(jobs.count_until_stopped) as pool:
        assert executor.workers == 2
        short, long = pool.submit(3), pool.submit(100_000)
        seen, results = {short: [], long: []}, {}
        while len(results) < 2:
            for event in pool.events(1.0):
                if event.kind != "report":
                    results[event.task] = (event.kind, event.value)
                    continue
                seen[event.task].append(event.value)
                if (event.task, event.value) == (long, 5):
                    pool.stop(long)
    assert results[short] == ("done", 3)
    assert seen[short] == [0, 1, 2]
    kind, stopped_at = results[long]
    assert (kind, seen[long]) == ("done", list(range(stopped_at + 1)))
    assert 5 <= stopped_at < 100_000


def test_leaving_a_pool_ends_what_still_runs():
    executor = LocalExecutor(1, threads=1)
    with executor.start(jobs.count_until_stopped) as pool:
        pool.submit(100_000)
        while not pool.events(1.0):
            pass
    assert list(executor.map(jobs.square, [2])) == [4]


def test_evaluation_spread_over_workers_gives_the_same_ranks(executor, graph):
    run = bilink.train(graph, "distmult", 4, epochs=1, threads=1)
    rank = partial(bilink.rank_entities, run.scorer, graph, "valid", threads=1)
    blocks = np.array_split(graph.valid, 3)
    spread = np.concatenate(list(executor.map(partial(jobs.tail_ranks, rank), blocks)))
    assert (spread == run.evaluate("valid").values("tail")).all()


def test_a_task_that_no_machine_can_hold_is_refused(cluster):
    with pytest.raises(ConfigError, match="no machine of the cluster has 64 CPUs, at most 1"):
        list(RayExecutor(threads=64).map(jobs.square, [1]))


@pytest.mark.timeout(900)  # on a busy machine, Ray takes minutes to notice
def test_a_search_outlives_the_death_of_a_node(cluster, graph, tmp_path):
    """The last test that uses the cluster: it has one node less then."""
    pytest.importorskip("optuna", reason="optuna is not installed")
    from bilink.search import make_space, search

    space = make_space(
        {
            "search": {"method": "grid"},
            "fixed": {"epochs": 3000, "model": "distmult", "patience": 0, "validate_every": 500},
            "space": {"dim": [2, 3], "learning_rate": [0.1, 0.2]},
        }
    )
    histories = tmp_path / "out" / "histories"
    before, polls, since = {}, [], []

    def kill_a_node():
        """When one trial has ended and the next has had time to start on its node."""
        polls.extend(histories.glob("*.jsonl"))
        if polls and not since:
            since.append(time.monotonic())
        if len(polls) >= 8 and time.monotonic() > since[0] + 2 and cluster.mortals:
            before.update({path: path.stat().st_mtime_ns for path in polls})
            cluster.remove_node(cluster.mortals.pop(), allow_graceful=False)
        return False

    executor = RayExecutor(cluster.address)
    result = search(graph, space, tmp_path / "out", executor=executor, should_stop=kill_a_node)
    trials = result.report["trials"]
    assert [trial["state"] for trial in trials] == ["complete"] * 4
    assert [cause for trial in trials for cause in trial.get("lost", [])] != []
    assert before
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    assert executor.workers == 1


def test_cores_are_divided_among_processes():
    cores = os.cpu_count() or 1
    assert LocalExecutor(1).threads == cores
    assert LocalExecutor(2 * cores).threads == 1
    assert LocalExecutor(2, threads=3).threads == 3
    assert list(LocalExecutor(1, threads=1).map(jobs.blas_threads, [0])) == [1]


def test_processes_end_with_the_one_that_started_them():
    code = (
        "import distributed_jobs as jobs, os\n"
        "from bilink.distributed import LocalExecutor\n"
        "with LocalExecutor(1, 1).start(jobs.report_my_process) as pool:\n"
        "    pool.submit(100_000)\n"
        "    while not (events := pool.events(1.0)): pass\n"
        "    print(events[0].value, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": PATH},
    )
    child = int(done.stdout)
    for _ in range(200):
        if not alive(child):
            break
        time.sleep(0.05)
    assert not alive(child)


def alive(process):
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True).stdout
    return state.strip() not in (b"", b"Z")


@pytest.mark.parametrize("workers", ["0", "-1", "many", "", "1e3", "raym", "99999", "²"])
def test_workers_that_cannot_be_are_refused(workers):
    with pytest.raises(ConfigError, match="--workers must be"):
        executor_for(workers)


def test_workers_by_name():
    assert isinstance(executor_for("3"), LocalExecutor)
    pytest.importorskip("ray", reason="ray is not installed")
    assert isinstance(executor_for("ray", threads=2), RayExecutor)
    assert executor_for("ray://nowhere:1").threads == 1
