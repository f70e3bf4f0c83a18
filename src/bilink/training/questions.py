"""What the batch engine asks: questions "which tail?" and "which head?", with their answers."""

from dataclasses import dataclass

import numpy as np

from bilink.data.graph import Graph


@dataclass(frozen=True)
class Questions:
    """Questions of the training triples; the answers to question i stand from starts[i] on."""

    given: np.ndarray  # the entity that is known
    relations: np.ndarray
    heads: np.ndarray  # whether the head is asked for
    starts: np.ndarray
    answers: np.ndarray

    def __len__(self) -> int:
        return len(self.given)

    def take(self, chosen: np.ndarray) -> "Questions":
        """Some of the questions, those of one relation side by side."""
        chosen = chosen[np.argsort(self.relations[chosen], kind="stable")]
        counts = self.starts[chosen + 1] - self.starts[chosen]
        starts = np.zeros(len(chosen) + 1, dtype=np.int64)
        np.cumsum(counts, out=starts[1:])
        places = np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], counts)
        return Questions(
            self.given[chosen],
            self.relations[chosen],
            self.heads[chosen],
            starts,
            self.answers[places],
        )


@dataclass
class Batch:
    """Some questions, and what is shared by all parts of a step on them."""

    questions: Questions
    weights: np.ndarray  # of each question in the mean loss
    groups: np.ndarray  # where the questions of each relation start
    seed: np.uint64  # of dropout and of rounding
    losses: np.ndarray  # of each question, found on the way
    beaten: np.ndarray  # share of each question's answers that a wrong candidate beats


def questions_of(graph: Graph, together: int) -> Questions:
    """Two questions for each training triple; equal ones are one, with all their answers.

    One with more than ``together`` answers comes in parts of about the same size; 0 is no limit.
    """
    h, r, t = graph.train.T
    given, answers = np.concatenate([h, t]), np.concatenate([t, h])
    relations = np.concatenate([r, r])
    heads = np.repeat([False, True], len(h))
    if together == 1:
        return Questions(given, relations, heads, np.arange(len(given) + 1), answers)
    n, k = len(graph.entities), len(graph.relations)
    keys = (heads * np.int64(k) + relations) * np.int64(n) + given
    order = np.argsort(keys, kind="stable")
    firsts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    if together:
        counts = np.diff(firsts, append=len(keys))
        parts = -(-counts // together)
        place = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
        firsts, counts, parts = (np.repeat(array, parts) for array in (firsts, counts, parts))
        firsts = firsts + place * counts // parts
    given, relations, heads = (array[order[firsts]] for array in (given, relations, heads))
    return Questions(given, relations, heads, np.append(firsts, len(keys)), answers[order])
