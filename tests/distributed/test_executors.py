"""Where work runs does not change what comes out; a lost worker costs no result."""

import os
import subprocess
import sys
import time
from functools import partial

import jobs
import numpy as np
import pytest

import bilink
from bilink.distributed.executor import executor_for
from bilink.distributed.local import LocalExecutor
from bilink.distributed.ray import RayExecutor
from bilink.errors import BilinkError, ConfigError, WorkerError


@pytest.fixture(scope="module")
def cluster():
    """A head without CPUs, so that all work is on the two nodes that can be killed."""
    pytest.importorskip("ray", reason="ray is not installed")
    from ray.cluster_utils import Cluster

    size = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **size})
    cluster.nodes_to_kill = [cluster.add_node(num_cpus=1, **size) for _ in range(2)]
    yield cluster
    cluster.shutdown()


@pytest.fixture(params=["local", "ray"])
def executor(request):
    if request.param == "local":
        return LocalExecutor(2, threads=1)
    return RayExecutor(request.getfixturevalue("cluster").address)


def test_map_gives_results_in_order(executor):
    assert list(executor.map(jobs.square, range(7))) == [x * x for x in range(7)]
    assert list(executor.map(jobs.slow_first, range(4))) == [0, 1, 2, 3]
    assert list(executor.map(jobs.square, [])) == []


def test_an_item_whose_worker_dies_is_given_to_another(executor, tmp_path):
    assert list(executor.map(partial(jobs.die_once, tmp_path), range(6))) == list(range(6))
    assert (tmp_path / "3").exists()


def test_an_item_that_kills_every_worker_is_an_error(executor):
    with pytest.raises(WorkerError, match=r"item 1 was not done: its (process|worker)"):
        list(executor.map(jobs.die, [0]))


def test_failures_come_back_as_their_cause(executor):
    with pytest.raises(WorkerError, match="training diverged"):
        list(executor.map(jobs.fail, ["known"]))
    with pytest.raises(WorkerError, match=r"KeyError: 'missing' \(in jobs.py:"):
        list(executor.map(jobs.fail, ["unknown"]))


def follow(pool, wanted):
    """All events until ``wanted`` tasks have ended."""
    events, ended = [], 0
    while ended < wanted:
        for event in pool.events(1.0):
            events.append(event)
            ended += event.kind != "report"
            yield event


def test_tasks_report_in_order_and_end_when_told_to(executor):
    with executor.start(jobs.count_until_stopped) as pool:
        short, long = pool.submit(3), pool.submit(100_000)
        seen = {short: [], long: []}
        results = {}
        for event in follow(pool, 2):
            if event.kind == "report":
                seen[event.task].append(event.value)
                if event.task == long and event.value == 5:
                    pool.stop(long)
            else:
                results[event.task] = (event.kind, event.value)
    assert results[short] == ("done", 3)
    assert seen[short] == [0, 1, 2]
    kind, stopped_at = results[long]
    assert (kind, seen[long]) == ("done", list(range(stopped_at + 1)))
    assert 5 <= stopped_at < 100_000


def test_leaving_a_pool_ends_what_still_runs(executor):
    started = time.monotonic()
    with executor.start(jobs.count_until_stopped) as pool:
        pool.submit(100_000)
        while not pool.events(1.0):
            pass
    assert time.monotonic() - started < 60


def test_evaluation_spread_over_workers_gives_the_same_ranks(executor):
    graph = bilink.load_graph("atlas")
    run = bilink.train(graph, "distmult", 4, epochs=1, threads=1)
    rank = partial(bilink.rank_entities, run.scorer, graph, "valid", threads=1)
    blocks = np.array_split(graph.valid, 3)
    spread = np.concatenate(list(executor.map(partial(jobs.add_mrr, rank), blocks)))
    assert (spread == run.evaluate("valid").values("tail")).all()


def test_a_node_that_dies_takes_no_result_with_it(cluster):
    """Comes after all others that use the cluster: it has one node less then."""
    executor = RayExecutor(cluster.address)
    with executor.start(jobs.count_until_stopped) as pool:
        assert executor.workers == 2
        tasks = [pool.submit(300) for _ in range(2)]
        ended, lost = {}, []
        for event in follow(pool, 3):
            if event.kind == "report" and event.value == 20 and cluster.nodes_to_kill:
                cluster.remove_node(cluster.nodes_to_kill.pop(), allow_graceful=False)
                cluster.nodes_to_kill.clear()
            elif event.kind == "lost":
                lost.append(event)
                pool.submit(300)
            elif event.kind == "done":
                ended[event.task] = event.value
        assert executor.workers == 1
    assert len(lost) == 1
    assert lost[0].task in tasks
    assert list(ended.values()) == [300, 300]


def test_cores_are_divided_among_processes():
    cores = os.cpu_count() or 1
    assert LocalExecutor(1).threads == cores
    assert LocalExecutor(2 * cores).threads == 1
    assert LocalExecutor(2, threads=3).threads == 3
    assert list(LocalExecutor(1, threads=1).map(jobs.blas_threads, [0])) == [1]


def test_processes_end_with_the_one_that_started_them():
    code = (
        "import jobs, os\n"
        "from bilink.distributed.local import LocalExecutor\n"
        "if __name__ == '__main__':\n"
        "    with LocalExecutor(1, 1).start(jobs.count_until_stopped) as pool:\n"
        "        pool.submit(100_000)\n"
        "        while not pool.events(1.0): pass\n"
        "        print(next(iter(pool._busy.values())).process.pid, flush=True)\n"
        "        os.kill(os.getpid(), 9)\n"
    )
    here = os.path.dirname(__file__)
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    child = int(done.stdout)
    for _ in range(100):
        if not alive(child):
            break
        time.sleep(0.1)
    assert not alive(child)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("workers", ["0", "-1", "many", "", "1e3", "raym", "99999"])
def test_workers_that_cannot_be_are_refused(workers):
    with pytest.raises(ConfigError, match="--workers must be"):
        executor_for(workers)


def test_workers_by_name():
    assert isinstance(executor_for("3"), LocalExecutor)
    pytest.importorskip("ray", reason="ray is not installed")
    assert isinstance(executor_for("ray", threads=2), RayExecutor)
    assert executor_for("ray://nowhere:1").threads == 1


def test_a_task_that_no_machine_can_hold_is_refused(cluster):
    with pytest.raises(BilinkError, match="no machine of the cluster has 64 CPUs, at most 1"):
        list(RayExecutor(cluster.address, threads=64).map(jobs.square, [1]))
