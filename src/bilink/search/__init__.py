"""Hyper-parameters: which settings are best on the validation split."""
