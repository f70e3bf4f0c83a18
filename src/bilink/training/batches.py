"""What softmax training asks: queries "which tail?" and "which head?" with their answers."""

from dataclasses import dataclass

import numpy as np

from bilink.data.graph import Graph
from bilink.training.softmax_kernels import Targets


@dataclass(frozen=True)
class Queries:
    """Queries of the training triples; the answers of query i stand from starts[i] on."""

    given: np.ndarray  # the entity that is known
    relations: np.ndarray
    heads: np.ndarray  # whether the head is asked for
    starts: np.ndarray
    answers: np.ndarray

    def __len__(self) -> int:
        return len(self.given)

    def take(self, chosen: np.ndarray) -> "Queries":
        """Some of the queries, those of one relation side by side."""
        chosen = chosen[np.argsort(self.relations[chosen], kind="stable")]
        counts = self.starts[chosen + 1] - self.starts[chosen]
        starts = np.append(0, np.cumsum(counts))
        places = np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], counts)
        given, relations, heads = (x[chosen] for x in (self.given, self.relations, self.heads))
        return Queries(given, relations, heads, starts, self.answers[places])


@dataclass
class Batch:
    """Some queries, and what is shared by all parts of a step on them."""

    queries: Queries
    weights: np.ndarray  # of each query in the mean loss
    groups: np.ndarray  # where the queries of each relation start
    seed: np.uint64  # of dropout; ~seed is that of rounding
    losses: np.ndarray  # of each query, written by the comparison
    beaten: np.ndarray  # share of each query's answers that a wrong candidate beats, likewise

    def targets(self, rows: slice) -> Targets:
        """The answers of some queries, for the kernels."""
        of_rows = (x[rows] for x in (self.weights, self.losses, self.beaten))
        return Targets(self.queries.starts[rows.start :], self.queries.answers, *of_rows)


def queries_of(graph: Graph, answers_per_query: int) -> Queries:
    """Two queries for each training triple; equal ones are one, with all their answers.

    One with more than ``answers_per_query`` answers comes in parts of about the same size; 0 is no
    limit.
    """
    h, r, t = graph.train.T
    given, answers = np.concatenate([h, t]), np.concatenate([t, h])
    relations = np.concatenate([r, r])
    heads = np.repeat([False, True], len(h))
    if answers_per_query == 1:
        return Queries(given, relations, heads, np.arange(len(given) + 1), answers)
    n, k = len(graph.entities), len(graph.relations)
    keys = (heads * np.int64(k) + relations) * np.int64(n) + given
    order = np.argsort(keys, kind="stable")
    firsts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    if answers_per_query:
        counts = np.diff(firsts, append=len(keys))
        parts = -(-counts // answers_per_query)
        place = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
        firsts, counts, parts = (np.repeat(array, parts) for array in (firsts, counts, parts))
        firsts = firsts + place * counts // parts
    given, relations, heads = (array[order[firsts]] for array in (given, relations, heads))
    return Queries(given, relations, heads, np.append(firsts, len(keys)), answers[order])
