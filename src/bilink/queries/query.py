"""The questions (h, r, ?), (?, r, t), (h, ?, t) and (?, r, ?), and the best new facts of all."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bilink._text import printable
from bilink.data.graph import COLUMNS, SPLITS, Graph
from bilink.data.index import FactIndex, known_answers, rejected_facts
from bilink.errors import ConfigError
from bilink.evaluation.probability import MISSING, Judge, check_missing
from bilink.evaluation.ranks import best_of_row
from bilink.models.scorer import Scorer, Side
from bilink.queries.answers import Answer, Answers, AnswerSets, Question, as_questions, check_count
from bilink.queries.fitting import Fitting, LeftOut, add_up
from bilink.queries.new_facts import Wanted, most_probable, places_to_search
from bilink.queries.pairs import MEMORY_BUDGET, PairSearch

SEEN = "seen"
Only = str | Sequence[str]
Limit = Only | Fitting | None  # what may be an answer
MORE = 20  # candidates beyond those asked for that are judged: probabilities change the order
RELATIONS = 500  # of two entities that are judged
SPREAD = 8  # new facts of all relations: at most a share of 1/SPREAD is of one
_PATTERNS = (
    "give a relation and either a head or a tail; or a relation alone, for pairs; or a head and a "
    "tail, for relations; or nothing, for new facts"
)


@dataclass(frozen=True)
class Page:
    """The part of a list of answers that is wanted: ``k`` of them behind the first ``offset``."""

    k: int
    offset: int = 0

    @property
    def end(self) -> int:
        """How many answers it takes to fill all pages up to this one."""
        return self.offset + self.k

    def places(self, odds: np.ndarray) -> np.ndarray:
        """Which candidates are on the page, given their odds (or NaN) in the order of their scores.

        A page takes the best by odds of those candidates that it would judge if it were the last
        one, and that no page before it has: so none is on two pages, and none is passed over.
        """
        shown = np.zeros(len(odds), dtype=bool)
        page, filled = np.empty(0, dtype=np.int64), 0
        for end in range(self.offset % self.k or self.k, self.end + 1, self.k):
            left = np.flatnonzero(~shown[: end + MORE])
            page = left[np.argsort(-odds[left], kind="stable")[: end - filled]]
            shown[page], filled = True, end
        return page


class Answering:
    """What can be asked of anything that has a graph, a scorer and perhaps probabilities."""

    graph: Graph

    @property
    def scorer(self) -> Scorer:
        """What ranks and answers."""
        raise NotImplementedError

    @property
    def judge(self) -> Judge | None:
        """What makes probabilities, or None where none were learnt."""
        return None

    @cached_property
    def known(self) -> FactIndex:
        """What the graph knows, of all splits."""
        return known_answers(self.graph, SPLITS)

    @cached_property
    def rejected(self) -> FactIndex:
        """What people found false: it is no answer to any question."""
        return rejected_facts(self.graph)

    def query(
        self,
        *,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        k: int = 10,
        new: bool = False,
        only: Only | None = None,
        any_entity: bool = False,
        missing: float | None = None,
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
        any_entity
            Without probabilities, and without ``only``, candidates that make no sense are left out:
            entities that never occur in that position of the relation, and second values where it
            has one.  This keeps them; ``Answers.left_out`` says how many they are.
        missing
            The share of all facts that is thought missing, which probabilities depend on.
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
        search: dict[str, Any] = {"memory": memory, "progress": progress, "stop": stop}
        return self.query_ids(
            h, r, t, k=k, new=new, only=only, any_entity=any_entity, missing=missing, **search
        )

    def query_ids(
        self,
        h: int | None,
        r: int | None,
        t: int | None,
        *,
        k: int = 10,
        new: bool = False,
        only: Only | None = None,
        any_entity: bool = False,
        missing: float | None = None,
        offset: int = 0,
        **search: Any,
    ) -> Answers:
        """``query`` for ids in place of names.

        ``offset`` answers are passed over, where entities or relations are asked for.
        """
        check_count(k)
        missing = check_missing(MISSING if missing is None else missing)
        limit, page = self._limit(only, any_entity), Page(k, offset)
        match h, r, t:
            case int(), int(), None:
                return self._entities("tail", np.array([[h, r]]), page, new, limit, missing)[0]
            case None, int(), int():
                return self._entities("head", np.array([[t, r]]), page, new, limit, missing)[0]
            case None, int(), None:
                return self._pairs(r, k, new, limit, missing, search)
            case int(), None, int():
                if only is not None:
                    raise ConfigError("only limits entities, but this question asks for a relation")
                return self._relations(h, t, page, new, missing)
            case None, None, None if new:
                return self._new_facts(k, limit, missing, search)
        raise ConfigError(_PATTERNS)

    def query_block(
        self,
        side: Side,
        asked: np.ndarray,
        *,
        k: int = 10,
        new: bool = False,
        only: Only | None = None,
        any_entity: bool = False,
        missing: float | None = None,
        offset: int = 0,
    ) -> list[Answers]:
        """``query_ids`` for many questions after the same ``side``, in a fraction of the time.

        Each row of ``asked`` is (entity, relation).
        """
        check_count(k)
        missing = check_missing(MISSING if missing is None else missing)
        limit = self._limit(only, any_entity)
        return self._entities(side, asked, Page(k, offset), new, limit, missing)

    def _limit(self, only: Only | None, any_entity: bool) -> Limit:
        if only is None and not any_entity and self.judge is None:
            return self._fitting
        return only

    def query_all(
        self,
        questions: Iterable[Question | Sequence[str | None]],
        *,
        k: int = 10,
        new: bool = False,
        only: Only | None = None,
        any_entity: bool = False,
        missing: float | None = None,
        memory: int = MEMORY_BUDGET,
        progress: Callable[[int], None] | None = None,
    ) -> AnswerSets:
        """The answers to many questions, as one table.

        A question is (head, relation, tail) with None for what is asked, or what
        ``bilink.read_questions`` reads from a file.  Options are those of ``query``; ``progress``
        is called after each question.

        Examples
        --------
        >>> run.query_all([("Austria", "borders", None)], k=3)  # doctest: +SKIP
        """
        check_count(k)
        options: dict[str, Any] = {"k": k, "new": new, "only": only, "any_entity": any_entity}
        options |= {"missing": missing, "memory": memory}
        sets = []
        for question in as_questions(questions):
            with question.blamed():
                given: dict[str, Any] = dict(question.given)
                sets.append(self.query(**given, **options))
            if progress:
                progress(1)
        return AnswerSets(sets)

    def to_search(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        new: bool = False,
    ) -> int:
        """How much ``progress`` will count: 0 for a question that searches no pairs."""
        if head is not None or tail is not None:
            return 0
        k = len(self.graph.relations)
        asked = range(k)
        if relation is not None:
            r = self.graph.relations.find(relation)
            asked = range(r, r + 1)
        if new and self.judge is not None:
            return places_to_search(self.judge.evidence, asked)
        return len(self.graph.entities) * len(asked)

    def new_facts(self, k: int = 10, *, only: Only | None = None, **search: Any) -> Answers:
        """The ``k`` best facts of all relations that the graph does not hold.

        They stand by probability where there is one, spread over relations; else by score, and
        scores of different relations compare only as far as the model was trained to make them.
        """
        return self.query_ids(None, None, None, k=k, new=True, only=only, **search)

    def _new_facts(
        self, k: int, limit: Limit, missing: float, search: Mapping[str, Any]
    ) -> Answers:
        relations = range(len(self.graph.relations))
        if self.judge is not None:
            triples = self._probable(relations, k, limit, missing, search)
            return self._answers("new facts", triples, self.scorer.score(triples), _whole, missing)
        best, left_out = _Best(k), []
        for r in relations:
            best.add(*self._best_pairs(r, k, True, limit, best.floor, search))
            if isinstance(limit, Fitting):
                left_out.append(limit.unfit_pairs(r, one=False))
        return self._answers("new facts", best.triples, best.scores, _whole, missing, left_out)

    def _probable(
        self,
        relations: range,
        k: int,
        only: Limit,
        missing: float,
        search: Mapping[str, Any],
    ) -> np.ndarray:
        """The most probable new facts; of all relations, not too many of one."""
        assert self.judge is not None
        assert not isinstance(only, Fitting)
        wanted = Wanted(
            k=k,
            per_relation=k if len(relations) == 1 else -(-k // min(SPREAD, len(relations))),
            missing=missing,
            heads=None if only is None else lambda r: self._chosen(only, "head", r),
            tails=None if only is None else lambda r: self._chosen(only, "tail", r),
            progress=search.get("progress"),
            stop=search.get("stop"),
        )
        return most_probable(self.judge, relations, wanted)

    def _entities(
        self, side: Side, asked: np.ndarray, page: Page, new: bool, limit: Limit, missing: float
    ) -> list[Answers]:
        """The answers to each question (entity, relation) after the same side."""
        count = page.end + (1 if self.judge is None else MORE)
        found: list[tuple[np.ndarray, np.ndarray, list[LeftOut]]] = []
        for part, rows in self.scorer.blocks(side, *asked.T):
            for row, (given, r) in zip(rows, asked[part].tolist(), strict=True):
                exclude, left_out = self._excluded(side, given, r, new, limit)
                ids, scores = best_of_row(row, count, exclude)
                triples = np.empty((len(ids), 3), dtype=np.int64)
                triples[:] = (given, r, given)
                triples[:, COLUMNS[side][1]] = ids
                found.append((triples, scores, left_out))
        judged = self._judged(np.concatenate([triples for triples, _, _ in found]), missing)
        answers, start = [], 0
        for (given, r), (triples, scores, left_out) in zip(asked.tolist(), found, strict=True):
            odds, chances = (each[start : start + len(triples)] for each in judged)
            start += len(triples)
            best = page.places(odds)
            entity, relation = self._shown(given, r)
            question, label = f"({entity}, {relation}, ?)", _tail
            if side == "head":
                question, label = f"(?, {relation}, {entity})", _head
            table = self._answers(
                question,
                triples[best],
                scores[best],
                label,
                missing,
                left_out,
                chances=chances[best],
                offset=page.offset,
                more=len(triples) > page.end,
            )
            answers.append(table)
        return answers

    def _excluded(
        self, side: Side, given: int, r: int, new: bool, limit: Limit
    ) -> tuple[np.ndarray, list[LeftOut]]:
        """The entities that may not be answers, and how many of them make no sense."""
        facts = self.known[side].of_query(given, r)
        leave_out = [self.rejected[side].of_query(given, r), *([facts] if new else [])]
        if r not in self.graph.reflexive_relations:
            leave_out.append(np.array([given]))
        left_out = []
        if isinstance(limit, Fitting):
            unfit, why = limit.unfit(side, given, r, np.concatenate([facts[:0], *leave_out]))
            leave_out.append(unfit)
            left_out.append(why)
        elif limit is not None:
            others = np.ones(len(self.graph.entities), dtype=bool)
            others[self._chosen(limit, side, r)] = False
            leave_out.append(np.flatnonzero(others))
        return np.concatenate([facts[:0], *leave_out]), left_out

    def _judged(self, triples: np.ndarray, missing: float | None) -> tuple[np.ndarray, np.ndarray]:
        """The log-odds that order triples, and their probabilities; NaN without either."""
        if self.judge is None or not len(triples):
            return np.full(len(triples), np.nan), np.full(len(triples), np.nan)
        odds, chances = self.judge(triples, missing)
        return odds, np.where(self._trained.holds(triples), np.nan, chances)

    def _relations(self, h: int, t: int, page: Page, new: bool, missing: float) -> Answers:
        n = len(self.graph.relations)
        triples = np.stack([np.full(n, h), np.arange(n), np.full(n, t)], axis=1)
        triples = triples[~self.rejected.holds(triples)]
        if new:
            triples = triples[~self.known.holds(triples)]
        scores = self.scorer.score(triples)
        best = np.argsort(-scores, kind="stable")
        if self.judge is not None:
            best = best[: max(RELATIONS, page.end + 1)]
        odds, chances = self._judged(triples[best], missing)
        order = np.argsort(-odds, kind="stable")[page.offset : page.end]
        more, best, chances = len(best) > page.end, best[order], chances[order]
        names = [printable(self.graph.entities.label(i)) for i in (h, t)]
        return self._answers(
            f"({names[0]}, ?, {names[1]})",
            triples[best],
            scores[best],
            _relation,
            missing,
            chances=chances,
            offset=page.offset,
            more=more,
        )

    def _pairs(
        self,
        r: int,
        k: int,
        new: bool,
        limit: Limit,
        missing: float,
        search: Mapping[str, Any],
    ) -> Answers:
        if new and self.judge is not None:
            triples = self._probable(range(r, r + 1), k, limit, missing, search)
            scores = self.scorer.score(triples)
        else:
            triples, scores = self._best_pairs(r, k, new, limit, -np.inf, search)
        relation = printable(self.graph.relations.label(r))
        left_out = [limit.unfit_pairs(r, one=True)] if isinstance(limit, Fitting) else []
        return self._answers(f"(?, {relation}, ?)", triples, scores, _pair, missing, left_out)

    def _best_pairs(
        self,
        r: int,
        k: int,
        new: bool,
        limit: Limit,
        floor: float,
        search: Mapping[str, Any],
    ) -> tuple[np.ndarray, np.ndarray]:
        facts, rejected = self.known.pairs(r), self.rejected.pairs(r)
        heads = tails = None
        if isinstance(limit, Fitting):
            if not limit.has_new_pairs(r):
                return self._best_facts(r, facts[:0] if new else facts, k)
            heads, tails = limit.ends(r)
        elif limit is not None:
            heads, tails = self._chosen(limit, "head", r), self._chosen(limit, "tail", r)
        found = self._search.best(
            r,
            k,
            heads=heads,
            tails=tails,
            leave_out=np.union1d(facts, rejected) if new else rejected,
            loops=r in self.graph.reflexive_relations,
            seeds=facts // len(self.graph.entities),
            floor=floor,
            **search,
        )
        triples = np.stack([found.heads, np.full_like(found.heads, r), found.tails], axis=1)
        return triples, found.scores

    def _best_facts(self, r: int, pairs: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Those of the ``pairs`` with the highest scores."""
        heads, tails = np.divmod(pairs, len(self.graph.entities))
        triples = np.stack([heads, np.full_like(heads, r), tails], axis=1)
        scores = self.scorer.score(triples)
        best = np.argsort(-scores, kind="stable")[:k]
        return triples[best], scores[best]

    @cached_property
    def _search(self) -> PairSearch:
        return PairSearch(self.scorer)

    @cached_property
    def _trained(self) -> FactIndex:
        """What training has seen."""
        return known_answers(self.graph, ("train",))

    @cached_property
    def _fitting(self) -> Fitting:
        return Fitting(self.graph, self.known, self._trained)

    def _chosen(self, only: Only, side: Side, r: int) -> np.ndarray:
        """The ids that may be answers."""
        if isinstance(only, str):
            if only != SEEN:
                raise ConfigError(f"only must be {SEEN!r} or a list of names, not {only!r}")
            return self._trained.seen(r, side)
        if not isinstance(only, Iterable):
            raise ConfigError(f"only must be {SEEN!r} or a list of names, not {only!r}")
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
        missing: float,
        left_out: Iterable[LeftOut] = (),
        *,
        chances: np.ndarray | None = None,
        offset: int = 0,
        more: bool = False,
    ) -> Answers:
        """The table of the answers: the one place where names, marks and probabilities are set."""
        entities, relations = self.graph.entities, self.graph.relations
        if chances is None:
            _, chances = self._judged(triples, missing)
        shown = _or_none(chances)
        known = self.known.holds(triples).tolist()
        answers = [
            Answer(
                head=entities.names[h],
                relation=relations.names[r],
                tail=entities.names[t],
                label=label(entities.label(h), relations.label(r), entities.label(t)),
                score=score,
                probability=shown[i],
                rank=offset + i + 1,
                known=known[i],
            )
            for i, ((h, r, t), score) in enumerate(
                zip(triples.tolist(), scores.tolist(), strict=True)
            )
        ]
        share = missing if self.judge is not None else None
        return Answers(question, answers, share, add_up(left_out), more)

    def chances(self, triples: np.ndarray, missing: float | None = None) -> list[float | None]:
        """How likely each triple of ids is true; None for what the model was trained on.

        A model that has seen a fact cannot judge it; ``bilink audit`` does.
        """
        triples = np.asarray(triples).reshape(-1, 3)
        return _or_none(self._judged(triples, missing)[1])


def _or_none(chances: np.ndarray) -> list[float | None]:
    return [None if np.isnan(chance) else chance for chance in chances.tolist()]


class _Best:
    """The best facts so far, over relations, by their scores."""

    def __init__(self, k: int):
        self._k = k
        self.triples, self.scores = np.empty((0, 3), dtype=np.int64), np.empty(0)

    @property
    def floor(self) -> float:
        """Scores below it are not among the best."""
        return float(self.scores[-1]) if len(self.scores) == self._k else -np.inf

    def add(self, triples: np.ndarray, scores: np.ndarray) -> None:
        """Mix in the best facts of one more relation."""
        triples = np.concatenate([self.triples, triples])
        scores = np.concatenate([self.scores, scores])
        order = np.lexsort((triples[:, 2], triples[:, 0], triples[:, 1], -scores))[: self._k]
        self.triples, self.scores = triples[order], scores[order]


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
