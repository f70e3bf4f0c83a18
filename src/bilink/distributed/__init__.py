"""Where work runs: on this machine's processes, or on a Ray cluster."""
