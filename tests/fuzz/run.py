"""Fuzz a target by hand: python tests/fuzz/run.py graphs --cases 10000."""

import argparse
import os
import sys
import time
from pathlib import Path

from harness import Report, find_target, fuzz, make_case, outcome, save_failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", help="a module of this folder with a TARGET, for example graphs")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other cases")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--only", type=int, help="run this case alone, here, with its traceback")
    options = parser.parse_args()
    if options.only is not None:
        return run_one(options.target, options.seed, options.only, options.failures)
    cases = range(options.first, options.first + options.cases)
    start, shown = time.monotonic(), 0.0

    def progress(report: Report) -> None:
        nonlocal shown
        if time.monotonic() - shown > 5:
            shown = time.monotonic()
            print(f"{shown - start:6.0f} s  {report}", file=sys.stderr, flush=True)

    report = fuzz(options.target, cases, options.seed, workers=options.workers, progress=progress)
    save_failures(options.target, options.seed, report, options.failures)
    print(f"{options.target}, seed {options.seed}: {report} ({time.monotonic() - start:.0f} s)")
    for number, kind, detail in report.failures[:20]:
        print(f"case {number}: {kind}: {detail.strip().splitlines()[-1][:200]}")
    if report.failures:
        print(f"inputs and errors are in {options.failures}")
    return int(bool(report.failures))


def run_one(name: str, seed: int, number: int, folder: Path) -> int:
    """Write the input of one case and run it in this process."""
    target = find_target(name)
    os.environ.update(target.environment)
    path = make_case(target, seed, number).write(folder / f"{name}-{seed}-{number}" / "input")
    print(path)
    kind, detail = outcome(target.run, path)
    print(kind, detail)
    return int(kind not in ("accepted", "refused"))


if __name__ == "__main__":
    sys.exit(main())
