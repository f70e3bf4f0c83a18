"""Imports that wait: optional packages, and public names that are imported when first used."""

import sys
from collections.abc import Callable, Iterator, Mapping
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


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package; ``homes`` has the module behind each public name."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
