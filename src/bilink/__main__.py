"""``python -m bilink``."""

from bilink.cli import main

main()
