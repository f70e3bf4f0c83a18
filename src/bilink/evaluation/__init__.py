"""How good a scorer is."""
