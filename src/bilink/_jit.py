"""How kernels are compiled: the flags, the cache on disk, and templates bound to a model.

A *kernel* takes arrays and numbers and writes into arrays.  A *kernel function* is a short function
on single rows that kernels call.  A *template* is a kernel written against kernel functions that
each model defines for itself; ``bind`` compiles a copy of it for one model.
"""

import hashlib
import os
import types
from collections.abc import Callable, Mapping
from functools import cache as remember
from pathlib import Path
from typing import Any

import numba
import numpy as np

from bilink._files import user_cache

# Same source, same bits: where LLVM may choose (which product of a·b + c·d to fuse, in which order
# to add three terms), it chooses differently from one compilation to the next.  So "contract" is
# absent, and only ``reduction`` may reorder a sum, a single one, so that it vectorises.  Neither
# "nnan" nor "ninf" anywhere: a NaN loss is how divergence is noticed.
FASTMATH = {"nsz", "arcp", "afn"}
_OPTIONS: dict[str, Any] = {"fastmath": FASTMATH, "nogil": True, "error_model": "numpy"}


def kernel_function(function: Callable[..., Any]) -> Any:
    """Compile a function on rows that is called from kernels only, where it is inlined."""
    return numba.njit(function, **_OPTIONS)


def loop(function: Callable[..., Any]) -> Any:
    """Compile a kernel function that makes no arrays and returns none.

    Then it need not count references.  Numba counts them, atomically, wherever an array is taken
    out of a named tuple; in a loop over entities that costs far more than the loop.
    """
    options: dict[str, Any] = {**_OPTIONS, "_nrt": False}
    return numba.njit(function, **options)


def named(name: str) -> Callable[[Callable[..., Any]], Any]:
    """The decorator ``kernel_function`` for functions that are made anew for each model.

    Machine code from the cache is linked by name: without one of its own, the function of one
    model would be called in the place of another's.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        function.__qualname__ = f"{function.__name__}_{name.replace('-', '_')}"
        return kernel_function(function)

    return decorate


def reduction(function: Callable[..., Any]) -> Any:
    """Compile a kernel function whose one loop is a sum, in an order left to the compiler."""
    return numba.njit(function, **{**_OPTIONS, "fastmath": {*FASTMATH, "reassoc"}})


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function on arrays; keep the machine code on disk for the next process.

    Kernels release the interpreter lock, so that plain Python threads run them in parallel.
    """
    folder = _cache_folder()
    # Numba reads CACHE_DIR when the decorator runs; other packages' caches stay where they were.
    settings: Any = numba.config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(folder or "")
    try:
        compiled = numba.njit(function, cache=folder is not None, **_OPTIONS)
    finally:
        settings.CACHE_DIR = before
    _compile_where_the_cache_is_damaged(compiled)
    return compiled


def _compile_where_the_cache_is_damaged(compiled: Any) -> None:
    """Let a kernel whose file on disk cannot be read be compiled and written anew."""
    cache: Any = getattr(compiled, "_cache", None)
    if not hasattr(cache, "load_overload"):  # compiling is turned off
        return
    load = cache.load_overload

    def load_or_forget(signature: Any, context: Any) -> Any:
        try:
            return load(signature, context)
        except Exception:  # whatever a file of random bytes may raise
            cache.flush()
            return None

    cache.load_overload = load_or_forget


def bind(template: Callable[..., Any], functions: Mapping[str, Any], name: str) -> Any:
    """Compile ``template`` with ``functions`` in place of the placeholders of the same names.

    The copy lives in its own globals; closures and function arguments would miss Numba's cache
    in every new process.
    """
    names = {**template.__globals__, **functions}
    copy = types.FunctionType(template.__code__, names, template.__name__)
    copy.__qualname__ = f"{template.__name__}_{name}"
    copy.__doc__ = template.__doc__
    return kernel(copy)


@remember
def _cache_folder() -> Path | None:
    """A folder named by a hash of the sources of all kernels, or None where it cannot be written.

    Numba looks at the file of the outermost function only; the hash notices an edit in any file
    that compiles something or is compiled for a model.
    """
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        if b"_jit" in source or b"bind" in source:  # kernels and their templates
            digest.update(path.relative_to(package).as_posix().encode())
            digest.update(source)
    folder = user_cache() / "kernels" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


# -- pseudo-random numbers inside kernels: splitmix64 ----------------------------------------------


@kernel_function
def mix(z):
    """The finalizer of splitmix64: a good hash of 64 bits."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel_function
def draw(state, n):
    """A random integer below n ≤ 2³¹; advances the one-element ``state``."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return np.int64(((mix(state[0]) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))
