"""From files to integer arrays."""
