"""Scorers made of scorers."""
