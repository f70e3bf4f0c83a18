"""Imports that wait: optional packages, and public names that are imported when first used."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from bilink.errors import ConfigError


@contextmanager
def needs(module: str, *, extra: str, purpose: str) -> Iterator[None]:
    """Turn a missing ``module`` into a sentence that says what to install.

    Any other ImportError inside the block passes through untouched.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module:
            raise
        raise ConfigError(
            f"{purpose} needs {module}; install it with: pip install 'bilink[{extra}]'"
        ) from None


def lazy(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[list[str], Callable[[str], Any]]:
    """``__all__`` and ``__getattr__`` of a package; ``names`` are what each module makes public."""
    homes = {name: module for module, own in names.items() for name in own}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return sorted(homes), get
