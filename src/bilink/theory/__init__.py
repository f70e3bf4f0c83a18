"""The theory that can be run: rankings, conversions, universality, consistency, bounds."""
