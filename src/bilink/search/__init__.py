"""Hyper-parameter search: which settings are best on the validation split."""

from bilink.search.loop import SearchProgress, SearchResult, search
from bilink.search.space import Space, make_space, read_space
from bilink.search.trials import Trial

__all__ = ["SearchProgress", "SearchResult", "Space", "Trial", "make_space", "read_space", "search"]
