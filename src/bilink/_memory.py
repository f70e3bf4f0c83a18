"""Memory: what the machine has, and what this process may still take of it."""

import os
from contextlib import suppress
from pathlib import Path

from bilink.errors import ConfigError

LIBRARIES = 2e9  # bytes of addresses that NumPy, Numba and polars take, most of them never used


def physical_memory() -> float:
    """Bytes of memory in this machine, or infinity where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return float("inf")


def available_memory() -> float:
    """Bytes that this process may still take, or infinity where the system does not tell.

    The least of what is free, what a container leaves, and what ``ulimit -v`` leaves.
    """
    limits = [physical_memory()]
    with suppress(OSError, ValueError, IndexError):
        found = Path("/proc/meminfo").read_text().partition("MemAvailable:")[2]
        limits.append(1024 * int(found.split()[0]))
    with suppress(OSError, ValueError):
        groups = Path("/sys/fs/cgroup")
        most, used = (int((groups / f"memory.{x}").read_text()) for x in ("max", "current"))
        limits.append(most - used)
    taken = LIBRARIES
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        taken = max(taken, pages * os.sysconf("SC_PAGE_SIZE"))
    limits.append(address_space() - taken)
    return max(0.0, min(limits))


def address_space() -> float:
    """Bytes of addresses that this process may take in all, which ``ulimit -v`` limits."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return float("inf")
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    return float("inf") if most == resource.RLIM_INFINITY else float(most)


_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def parse_bytes(text: str) -> int:
    """``256MB``, ``1G`` or ``1000000`` → bytes."""
    number = text.strip().lower().removesuffix("b").removesuffix("i")
    unit = number[-1:] if number[-1:] in "kmg" else ""
    try:
        value = float(number.removesuffix(unit)) * _UNITS[unit]
    except ValueError:
        value = 0
    if not 0 < value < 2**60:
        raise ConfigError(f"{text!r} is no size of memory; write for example 256MB or 2GB")
    return int(value)
