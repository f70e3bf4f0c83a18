"""Kill bilink's commands at their write events, and check that nothing is lost and nothing stale.

python tests/kills/run.py --kills 500
python tests/kills/run.py --command resume-margin --event 17
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from kill_commands import COMMANDS, Command
from kill_harness import Harness, Point

AT_RANDOM = 10  # one kill in so many is at a moment that is no write event


def main() -> int:
    """Kill as often as is wanted, print a table; returns the exit code."""
    names = [command.name for command in COMMANDS]
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--command", action="append", choices=names, help="only this one")
    parser.add_argument("--event", type=int, help="only this event, of one --command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a new folder, to look at what is left")
    options = parser.parse_args()
    chosen = [c for c in COMMANDS if not options.command or c.name in options.command]
    if options.keep:
        options.keep.mkdir()
        return _kill(chosen, options, options.keep)
    with tempfile.TemporaryDirectory() as folder:
        return _kill(chosen, options, Path(folder))


def _kill(commands: list[Command], options: argparse.Namespace, folder: Path) -> int:
    started = time.perf_counter()
    harness = Harness(folder, options.seed)
    counts = {command.name: [0, 0] for command in commands}
    for number, (command, point) in enumerate(_points(harness, commands, options), 1):
        failures = harness.kill(command, point)
        counts[command.name][0] += 1
        counts[command.name][1] += bool(failures)
        where = point.describe(harness.undisturbed(command).events)
        if failures:
            _tell(f"FAILED: {command.name}, {where}, seed {options.seed}", end="\n")
            for failure in failures:
                print(f"  {failure}")
        _tell(f"{number} kills, {sum(f for _, f in counts.values())} failures: {command.name}")
    _tell("")
    print(f"{'command':16}{'events':>8}{'kills':>8}{'failures':>10}")
    for command in commands:
        events = len(harness.undisturbed(command).events)
        print(f"{command.name:16}{events:8}{counts[command.name][0]:8}{counts[command.name][1]:10}")
    kills, failed = (sum(column) for column in zip(*counts.values(), strict=True))
    print(f"{'all':24}{kills:8}{failed:10}\n{time.perf_counter() - started:.0f} s")
    return 1 if failed else 0


def _tell(text: str, end: str = "") -> None:
    """Replace the line of progress."""
    if sys.stdout.isatty() or end:
        print(f"\r\033[K{text}" if sys.stdout.isatty() else text, end=end, flush=True)


def _points(
    harness: Harness, commands: list[Command], options: argparse.Namespace
) -> Iterator[tuple[Command, Point]]:
    """The kills, of all commands in turn; each command's events in random order, then moments."""
    if options.event:
        yield commands[0], Point(event=options.event)
        return
    chance = random.Random(options.seed)
    orders = []
    for command in commands:
        events = [Point(event=i + 1) for i in range(len(harness.undisturbed(command).events))]
        orders.append(chance.sample(events, len(events)))
    kills = 0
    for points in zip_longest(*orders):
        for command, point in zip(commands, points, strict=True):
            if kills == options.kills:
                return
            if point is None or not (kills + 1) % AT_RANDOM:
                point = Point(seconds=chance.uniform(0, harness.undisturbed(command).seconds))
            kills += 1
            yield command, point


if __name__ == "__main__":
    sys.exit(main())
