"""What probabilities are learnt and tested on: true and false triples, as they will be asked about.

Two things are asked.  *Facts*: is this triple true?  The false ones are then made of true ones, by
entities that fit the position.  *Answers*: is this one of the best answers to a question right?
The false ones are then the scorer's own best wrong answers, which are far harder to tell.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bilink.data.graph import Graph
from bilink.data.index import KnownAnswers, known_answers
from bilink.errors import ConfigError, DataError
from bilink.evaluation.classification import Score, finite_scores, labelled_triples
from bilink.models.scorer import SIDES, Scorer, Side
from bilink.ranking.ranks import check_finite

Asked = Literal["facts", "answers"]
BEST = 10  # answers to a question
QUESTIONS = 5_000  # of each side, at most
OWN_ANSWERS = "the best wrong answers"
_BYTES = 32 * 2**20  # of scores at a time


@dataclass(frozen=True, eq=False)
class Examples:
    """Triples with their scores, and whether they are true."""

    triples: np.ndarray
    scores: np.ndarray  # float64
    labels: np.ndarray  # bool
    n_relations: int
    negatives: str  # where the false ones come from

    @property
    def relations(self) -> np.ndarray:
        """Of each triple."""
        return self.triples[:, 1]

    @property
    def log_odds(self) -> float:
        """Logarithm of how many are true for one that is false."""
        true = int(np.count_nonzero(self.labels))
        return float(np.log(true / (len(self.labels) - true)))

    def part(self, where: np.ndarray) -> "Examples":
        """Those that ``where`` selects."""
        columns = (self.triples[where], self.scores[where], self.labels[where])
        return Examples(*columns, self.n_relations, self.negatives)

    def with_scores(self, scores: np.ndarray) -> "Examples":
        """The same with other scores."""
        return replace(self, scores=scores)


def find_examples(
    scorer: Scorer | Score, graph: Graph, split: str, asked: str = "facts", seed: int = 0
) -> Examples:
    """True and false triples of ``split``; an error if there are not both."""
    if asked == "facts":
        found = _facts(scorer.score if isinstance(scorer, Scorer) else scorer, graph, split, seed)
    elif asked != "answers":
        raise ConfigError(f"asked must be facts or answers, not {asked!r}")
    elif isinstance(scorer, Scorer):
        found = _answers(scorer, graph, split, seed)
    else:
        raise ConfigError("answers need a scorer; a function of triples does not find them")
    if found.labels.all() or not found.labels.any():
        missing = "false" if found.labels.any() else "right" if len(found.labels) else split
        raise DataError(
            f"graph {graph.name!r} has no {missing} triples to learn or test probabilities on"
            + ("" if len(found.labels) else "; make some with: bilink data split")
        )
    return found


def _facts(score: Score, graph: Graph, split: str, seed: int) -> Examples:
    triples, labels, origin = labelled_triples(graph, split, seed)
    return Examples(triples, finite_scores(score, triples), labels, len(graph.relations), origin)


def _answers(scorer: Scorer, graph: Graph, split: str, seed: int) -> Examples:
    """The best answers to the questions of ``split``, but for what is known before it."""
    before = ("train",) if split == "valid" else ("train", "valid")
    known, right = known_answers(graph, before), known_answers(graph, (split,))
    parts = []
    for side in SIDES:
        keys = right[side].keys  # each question once, however many right answers it has
        if len(keys) > QUESTIONS:
            random = np.random.default_rng([seed, 8])
            keys = np.sort(random.choice(keys, QUESTIONS, replace=False))
        given, relations = np.divmod(keys, len(graph.relations))
        for at in _blocks(len(keys), scorer):
            triples, scores = _best(scorer, graph, known[side], side, given[at], relations[at])
            parts.append((triples, scores, right[side].hold(triples, side)))
    triples, scores, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Examples(triples, scores, labels, len(graph.relations), OWN_ANSWERS)


def _blocks(count: int, scorer: Scorer) -> list[slice]:
    size = max(1, _BYTES // (scorer.dtype.itemsize * scorer.n_entities))
    return [slice(i, i + size) for i in range(0, max(count, 1), size)]


def _best(
    scorer: Scorer,
    graph: Graph,
    known: KnownAnswers,
    side: Side,
    given: np.ndarray,
    relations: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The triples and scores of the best answers to each question, without those known."""
    queries = scorer.queries(side, given, relations)
    check_finite(scorer, queries)
    scores = np.empty((len(given), scorer.n_entities), dtype=scorer.dtype)
    scorer.score_block(queries, scores)
    start, stop = known.spans(given, relations)
    for row, i, j in zip(scores, start, stop, strict=True):
        row[known.answers[i:j]] = -np.inf
    loops = np.isin(relations, list(graph.reflexive_relations))
    scores[np.flatnonzero(~loops), given[~loops]] = -np.inf
    k = min(BEST, scorer.n_entities)
    best = np.argpartition(scores, -k, axis=1)[:, -k:]
    found = np.take_along_axis(scores, best, axis=1)
    rows, places = np.nonzero(np.isfinite(found))
    columns = [given[rows], relations[rows], best[rows, places]]
    triples = np.stack(columns if side == "tail" else columns[::-1], axis=1).astype(np.int32)
    return triples, found[rows, places].astype(np.float64)
