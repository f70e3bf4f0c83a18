"""The questions (h, r, ?), (?, r, t), (h, ?, t) and (?, r, ?), and the best new facts of all."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from bilink._text import printable
from bilink.data.graph import COLUMNS, SPLITS, Graph
from bilink.data.index import FactIndex, known_answers
from bilink.errors import ConfigError
from bilink.evaluation.ranks import top_candidates
from bilink.models.scorer import Probability, Scorer, Side
from bilink.queries.answers import Answer, Answers, AnswerSets, Question, check_count
from bilink.queries.pairs import MEMORY_BUDGET, PairSearch

SEEN = "seen"
Only = str | Sequence[str]
_PATTERNS = (
    "give a relation and either a head or a tail; or a relation alone, for pairs; or a head and a "
    "tail, for relations; or nothing, for new facts"
)


class Answering:
    """What can be asked of anything that has a graph, a scorer and perhaps probabilities."""

    graph: Graph

    @property
    def scorer(self) -> Scorer:
        """What ranks and answers."""
        raise NotImplementedError

    @property
    def probability(self) -> Probability | None:
        """How likely answers are right: a function of their triples of ids and their scores."""
        return None

    @cached_property
    def known(self) -> FactIndex:
        """What the graph knows, of all splits."""
        return known_answers(self.graph, SPLITS)

    def query(
        self,
        *,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        k: int = 10,
        new: bool = False,
        only: Only | None = None,
        memory: int = MEMORY_BUDGET,
        progress: Callable[[int], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Answers:
        """The ``k`` best answers to (h, r, ?), (?, r, t), (h, ?, t), (?, r, ?) or (?, ?, ?).

        Names and unambiguous labels are understood.  No entity is an answer to a question about
        itself, unless training has some entity that the relation joins to itself.

        Parameters
        ----------
        head, relation, tail
            What is given; the rest is asked for.  With nothing given, the best new facts of all
            relations are.
        k
            How many answers.
        new
            Leave out facts that the graph holds already.
        only
            Entities that may be answers: ``"seen"`` for those that training has in that position of
            the relation, or a list of names.
        memory, progress, stop
            For the search of pairs: bytes; a function that is called with the number of heads just
            done; a function that ends the search when it returns true.

        Examples
        --------
        >>> run.query(head="Austria", relation="borders", new=True)  # doctest: +SKIP
        """
        entities, relations = self.graph.entities, self.graph.relations
        h, t = (None if name is None else entities.find(name) for name in (head, tail))
        r = None if relation is None else relations.find(relation)
        search = {"memory": memory, "progress": progress, "stop": stop}
        return self.query_ids(h, r, t, k=k, new=new, only=only, **search)

    def query_ids(
        self,
        h: int | None,
        r: int | None,
        t: int | None,
        *,
        k: int = 10,
        new: bool = False,
        only: Only | None = None,
        **search: Any,
    ) -> Answers:
        """``query`` for ids in place of names."""
        check_count(k)
        match h, r, t:
            case int(), int(), None:
                return self._entities("tail", h, r, k, new, only)
            case None, int(), int():
                return self._entities("head", t, r, k, new, only)
            case None, int(), None:
                return self._pairs(r, k, new, only, search)
            case int(), None, int():
                if only is not None:
                    raise ConfigError("only limits entities, but this question asks for a relation")
                return self._relations(h, t, k, new)
            case None, None, None if new:
                return self._new_facts(k, only, search)
        raise ConfigError(_PATTERNS)

    def query_all(
        self,
        questions: Sequence[Question],
        *,
        k: int = 10,
        new: bool = False,
        only: Only | None = None,
        memory: int = MEMORY_BUDGET,
        progress: Callable[[int], None] | None = None,
    ) -> AnswerSets:
        """The answers to many questions, such as ``bilink.read_questions`` reads from a file.

        Options are those of ``query``; ``progress`` is called after each question.
        """
        check_count(k)
        sets = []
        for question in questions:
            with question.blamed():
                given: dict[str, Any] = dict(question.given)
                sets.append(self.query(**given, k=k, new=new, only=only, memory=memory))
            if progress:
                progress(1)
        return AnswerSets(sets)

    def heads_to_search(
        self, head: str | None = None, relation: str | None = None, tail: str | None = None
    ) -> int:
        """How many heads ``progress`` will count: 0 for a question that searches no pairs."""
        if head is not None or tail is not None:
            return 0
        return len(self.graph.entities) * (len(self.graph.relations) if relation is None else 1)

    def new_facts(self, k: int = 10, *, only: Only | None = None, **search: Any) -> Answers:
        """The ``k`` best facts of all relations that the graph does not hold.

        They stand by probability where there is one, else by score; scores of different relations
        compare only as far as the model was trained to make them.
        """
        return self.query_ids(None, None, None, k=k, new=True, only=only, **search)

    def _new_facts(self, k: int, only: Only | None, search: Mapping[str, Any]) -> Answers:
        best = _Best(k, self.probability)
        for r in range(len(self.graph.relations)):
            best.add(*self._best_pairs(r, k, True, only, best.floor, search))
        return self._answers("new facts", best.triples, best.scores, _whole)

    def _entities(
        self, side: Side, given: int, r: int, k: int, new: bool, only: Only | None
    ) -> Answers:
        facts = self.known[side].of_query(given, r)
        leave_out = [facts] if new else []
        if r not in self.graph.reflexive_relations:
            leave_out.append(np.array([given]))
        if only is not None:
            others = np.ones(len(self.graph.entities), dtype=bool)
            others[self._chosen(only, side, r)] = False
            leave_out.append(np.flatnonzero(others))
        exclude = np.concatenate(leave_out) if leave_out else np.empty(0, dtype=np.int32)
        ids, scores = top_candidates(self.scorer, side, given, r, k, exclude)
        triples = np.empty((len(ids), 3), dtype=np.int64)
        triples[:] = (given, r, given)
        triples[:, COLUMNS[side][1]] = ids
        entity, relation = self._shown(given, r)
        if side == "tail":
            return self._answers(f"({entity}, {relation}, ?)", triples, scores, _tail)
        return self._answers(f"(?, {relation}, {entity})", triples, scores, _head)

    def _relations(self, h: int, t: int, k: int, new: bool) -> Answers:
        n = len(self.graph.relations)
        triples = np.stack([np.full(n, h), np.arange(n), np.full(n, t)], axis=1)
        if new:
            triples = triples[~self.known.holds(triples)]
        scores = self.scorer.score(triples)
        value = scores  # of different relations, so that probabilities say more
        if self.probability is not None and len(triples):
            value = self.probability(triples, scores)
        best = np.lexsort((triples[:, 1], -scores, -value))[:k]
        names = [printable(self.graph.entities.label(i)) for i in (h, t)]
        return self._answers(f"({names[0]}, ?, {names[1]})", triples[best], scores[best], _relation)

    def _pairs(
        self,
        r: int,
        k: int,
        new: bool,
        only: Only | None,
        search: Mapping[str, Any],
    ) -> Answers:
        triples, scores = self._best_pairs(r, k, new, only, -np.inf, search)
        relation = printable(self.graph.relations.label(r))
        return self._answers(f"(?, {relation}, ?)", triples, scores, _pair)

    def _best_pairs(
        self,
        r: int,
        k: int,
        new: bool,
        only: Only | None,
        floor: float,
        search: Mapping[str, Any],
    ) -> tuple[np.ndarray, np.ndarray]:
        facts = self.known.pairs(r)
        found = self._search.best(
            r,
            k,
            heads=None if only is None else self._chosen(only, "head", r),
            tails=None if only is None else self._chosen(only, "tail", r),
            leave_out=facts if new else None,
            loops=r in self.graph.reflexive_relations,
            seeds=facts // len(self.graph.entities),
            floor=floor,
            **search,
        )
        triples = np.stack([found.heads, np.full_like(found.heads, r), found.tails], axis=1)
        return triples, found.scores

    @cached_property
    def _search(self) -> PairSearch:
        return PairSearch(self.scorer)

    @cached_property
    def _trained(self) -> FactIndex:
        """What training has seen."""
        return known_answers(self.graph, ("train",))

    def _chosen(self, only: Only, side: Side, r: int) -> np.ndarray:
        """The ids that may be answers."""
        if isinstance(only, str):
            if only != SEEN:
                raise ConfigError(f"only must be {SEEN!r} or a list of names, not {only!r}")
            return self._trained.seen(r, side)
        return np.unique(self.graph.entities.find_all(only))

    def _shown(self, entity: int, r: int) -> tuple[str, str]:
        graph = self.graph
        return printable(graph.entities.label(entity)), printable(graph.relations.label(r))

    def _answers(
        self,
        question: str,
        triples: np.ndarray,
        scores: np.ndarray,
        label: Callable[[str, str, str], str],
    ) -> Answers:
        """The table of the answers: the one place where names, marks and probabilities are set."""
        entities, relations = self.graph.entities, self.graph.relations
        chances = None
        if self.probability is not None and len(triples):
            chances = self.probability(triples, scores).tolist()
        known = self.known.holds(triples).tolist()
        answers = [
            Answer(
                head=entities.names[h],
                relation=relations.names[r],
                tail=entities.names[t],
                label=label(entities.label(h), relations.label(r), entities.label(t)),
                score=score,
                probability=None if chances is None else chances[i],
                rank=i + 1,
                known=known[i],
            )
            for i, ((h, r, t), score) in enumerate(
                zip(triples.tolist(), scores.tolist(), strict=True)
            )
        ]
        return Answers(question, answers)


class _Best:
    """The best facts so far, over relations."""

    def __init__(self, k: int, probability: Probability | None):
        self._k, self._probability = k, probability
        self.triples, self.scores = np.empty((0, 3), dtype=np.int64), np.empty(0)
        self._order_by = np.empty(0)

    @property
    def floor(self) -> float:
        """Scores below it are not among the best; unknown where probabilities decide."""
        full = self._probability is None and len(self.scores) == self._k
        return float(self.scores[-1]) if full else -np.inf

    def add(self, triples: np.ndarray, scores: np.ndarray) -> None:
        """Mix in the best facts of one more relation."""
        value = scores
        if self._probability is not None and len(triples):
            value = self._probability(triples, scores)
        triples = np.concatenate([self.triples, triples])
        scores = np.concatenate([self.scores, scores])
        value = np.concatenate([self._order_by, value])
        order = np.lexsort((triples[:, 2], triples[:, 0], triples[:, 1], -scores, -value))
        order = order[: self._k]
        self.triples, self.scores, self._order_by = triples[order], scores[order], value[order]


def _head(head: str, relation: str, tail: str) -> str:
    return head


def _tail(head: str, relation: str, tail: str) -> str:
    return tail


def _relation(head: str, relation: str, tail: str) -> str:
    return relation


def _pair(head: str, relation: str, tail: str) -> str:
    return f"{head} → {tail}"


def _whole(head: str, relation: str, tail: str) -> str:
    return f"{head}, {relation}, {tail}"
