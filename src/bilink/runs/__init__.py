"""Runs: a model with its graph, its options and its history, in memory and as a folder."""
