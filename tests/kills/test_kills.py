"""A process that is killed while it writes loses nothing and leaves nothing stale.

``python tests/kills/run.py --kills 500`` does the same for longer.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("optuna", reason="optuna is not installed")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs fork and /proc")


@pytest.mark.slow
@pytest.mark.timeout(900)  # many processes, on perhaps a busy machine
def test_commands_killed_at_their_write_events_lose_nothing_and_leave_nothing_stale():
    # In a process of its own, which has no threads and can be forked.
    command = [sys.executable, Path(__file__).with_name("run.py"), "--kills", "25"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
