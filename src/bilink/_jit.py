"""How kernels are compiled: the flags, the cache on disk, and templates bound to a model's verbs.

A *kernel* takes arrays and numbers and writes into arrays.  A *verb* is a short kernel on single
rows that a model defines.  A *template* is a kernel written against verbs that do not exist yet;
``bind`` compiles a copy of it for one model.
"""

import hashlib
import os
import types
from collections.abc import Callable, Mapping
from functools import cache as remember
from pathlib import Path
from typing import Any

import numba

from bilink._files import user_cache

# Same source, same bits: where LLVM may choose (which product of a·b + c·d to fuse, in which order
# to add three terms), it chooses differently from one compilation to the next.  So "contract" is
# absent, and only ``reduction`` may reorder a sum, a single one, so that it vectorises.  Neither
# "nnan" nor "ninf" anywhere: a NaN loss is how divergence is noticed.
FASTMATH = {"nsz", "arcp", "afn"}


def verb(function: Callable[..., Any]) -> Any:
    """Compile a function on rows that is called from kernels only, where it is inlined."""
    return numba.njit(function, fastmath=FASTMATH, nogil=True, error_model="numpy")


def reduction(function: Callable[..., Any]) -> Any:
    """Compile a verb whose one loop adds up numbers in an order that is left to the compiler."""
    return numba.njit(function, fastmath={*FASTMATH, "reassoc"}, nogil=True, error_model="numpy")


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
        compiled = numba.njit(
            function,
            fastmath=FASTMATH,
            nogil=True,
            error_model="numpy",
            cache=folder is not None,
        )
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


def bind(template: Callable[..., Any], verbs: Mapping[str, Any], name: str) -> Any:
    """Compile ``template`` with ``verbs`` in place of the placeholders of the same names.

    The copy lives in its own globals; closures and function arguments would miss Numba's cache
    in every new process.
    """
    names = {**template.__globals__, **verbs}
    twin = types.FunctionType(template.__code__, names, template.__name__)
    twin.__qualname__ = f"{template.__name__}_{name}"
    twin.__doc__ = template.__doc__
    return kernel(twin)


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
