"""Questions to a scorer."""
