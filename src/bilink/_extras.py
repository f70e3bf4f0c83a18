"""The one gate to optional packages."""

from collections.abc import Iterator
from contextlib import contextmanager

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
