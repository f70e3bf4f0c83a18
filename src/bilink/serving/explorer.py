"""What the server answers about a run, as plain dictionaries ready for JSON."""

import math
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np

import bilink
from bilink._text import printable
from bilink.data.graph import SPLITS, Graph
from bilink.data.index import known_answers
from bilink.errors import ConfigError, DataError, QueryStopped
from bilink.evaluation.probability import MISSING, check_missing
from bilink.queries.answers import Answer, Answers
from bilink.queries.explain import Fact, Support
from bilink.queries.rules import Rule
from bilink.runs.run import Run
from bilink.serving.cards import RelationCards, doubts_of, finite
from bilink.serving.drawing import Map, directions, draw_map
from bilink.serving.failures import describe
from bilink.serving.names import Names
from bilink.serving.pools import Background

LONGEST_SEARCH = 120.0  # seconds
SHOWN = 24  # facts of an entity that are shown for each relation and direction
EXAMPLES = 3


# A relation, the side of the facts on which others stand, "tail" or "head", and their ids.
Group = tuple[int, str, np.ndarray]


class Facts:
    """The distinct facts of a graph, found by entity and by relation."""

    def __init__(self, graph: Graph):
        self._known = known_answers(graph, SPLITS)
        self._n_relations = n = len(graph.relations)
        self.degrees = np.zeros(len(graph.entities), dtype=np.int64)
        for index in self._known.values():
            np.add.at(self.degrees, index.keys // n, np.diff(index.offsets))
        self.counts = np.zeros(n, dtype=np.int64)  # of each relation
        tails = self._known["tail"]
        np.add.at(self.counts, tails.keys % n, np.diff(tails.offsets))

    def __len__(self) -> int:
        return len(self._known["tail"].answers)

    def hold(self, head: int, relation: int, tail: int) -> bool:
        """Whether this is a fact."""
        return tail in self._known["tail"].of_query(head, relation)

    def ends(self, relation: int, side: str) -> tuple[np.ndarray, np.ndarray]:
        """The entities on ``side`` of the relation's facts, and how many facts each one has."""
        index = self._known["head" if side == "tail" else "tail"]  # this side is given there
        rows = np.flatnonzero(index.keys % self._n_relations == relation)
        return index.keys[rows] // self._n_relations, np.diff(index.offsets)[rows]

    def group(self, entity: int, relation: int, side: str) -> np.ndarray:
        """The entities on ``side`` of an entity's facts with a relation, as ``groups`` has them."""
        others = self._known[side].of_query(entity, relation)
        return others[np.lexsort((others, -self.degrees[others]))]

    def groups(self, entity: int) -> list[Group]:
        """The entities that an entity has facts with, in groups, the largest first.

        Within a group the best connected entities come first.
        """
        found = []
        for side in ("tail", "head"):
            relations, others = self._facts_of(entity, side)
            starts = np.flatnonzero(np.diff(relations, prepend=-1))
            for r, group in zip(relations[starts], np.split(others, starts[1:]), strict=False):
                order = np.lexsort((group, -self.degrees[group]))
                found.append((int(r), side, group[order]))
        return sorted(found, key=lambda group: -len(group[2]))

    def around(self, centre: int, size: int) -> tuple[list[int], list[list[int]]]:
        """Up to ``size`` neighbours, taken in turn from each group, and the facts among them.

        The first node is the centre.  A fact is (head, relation, tail), where head and tail are
        positions in the list of nodes.
        """
        groups = [others for _, _, others in self.groups(centre)]
        nodes, turn = {centre: 0}, 0
        while len(nodes) <= size and any(turn < len(group) for group in groups):
            for group in groups:
                if turn < len(group) and len(nodes) <= size:
                    nodes.setdefault(int(group[turn]), len(nodes))
            turn += 1
        edges = []
        for head in nodes:
            relations, tails = self._facts_of(head, "tail")
            inside = np.isin(tails, list(nodes))
            found = zip(relations[inside].tolist(), tails[inside].tolist(), strict=True)
            edges += [[nodes[head], r, nodes[tail]] for r, tail in found]
        return list(nodes), edges

    def _facts_of(self, entity: int, side: str) -> tuple[np.ndarray, np.ndarray]:
        """The relation of each fact of an entity, sorted, and the entity on the other ``side``."""
        index, n = self._known[side], self._n_relations
        first, last = np.searchsorted(index.keys, [entity * n, (entity + 1) * n])
        offsets = index.offsets[first : last + 1]
        relations = np.repeat(index.keys[first:last] % n, np.diff(offsets))
        return relations, index.answers[offsets[0] : offsets[-1]]


class Decisions(Protocol):
    """What people have decided about triples; see ``bilink.serving.review``."""

    @property
    def version(self) -> int:
        """Another number after each change."""

    def decision(self, head: str, relation: str, tail: str) -> str | None:
        """What was decided about a triple of names: accept, reject, unsure, or nothing yet."""

    def counts(self) -> dict[str, int] | None:
        """How many triples have each decision; None where nobody decides."""


class Undecided:
    """Nobody has decided anything."""

    version = 0

    def decision(self, head: str, relation: str, tail: str) -> str | None:
        """Nothing."""
        return None

    def counts(self) -> dict[str, int] | None:
        """Nothing."""
        return None


class Explorer:
    """A run, with the indexes that make its answers quick."""

    def __init__(
        self,
        run: Run,
        *,
        background: Background | None = None,
        decisions: Decisions | None = None,
    ):
        self.run, self.graph = run, run.graph
        self.decisions: Decisions = Undecided() if decisions is None else decisions
        self.closing = threading.Event()  # ends long searches
        self.state = secrets.token_hex(8)  # of this process: a run may be trained again
        background = background or Background()
        self.facts = Facts(self.graph)
        self.entities = Names(self.graph.entities, self.facts.degrees, background)
        self.relations = Names(self.graph.relations, self.facts.counts, background)
        self._search_pairs = lru_cache(64)(self._try_pairs)  # these searches take long
        self._calibrated = run.judge is not None
        self._cards = RelationCards(run, background)
        # A few questions, so that the first caller waits for no compiling and no index.
        self.search("", "entity", 1)
        if len(self.graph.entities) and len(self.graph.relations):
            entity, relation = self.graph.entities.names[0], self.graph.relations.names[0]
            self.query(entity, relation, None, 1, new=False, seen=True)
            self.query(entity, None, entity, 1, new=False, seen=True)
            self.score([(entity, relation, entity)])

    @property
    def has_close_names(self) -> bool:
        """Whether a search for names will have the same result the next time."""
        return self.entities.is_ready

    def prepare(self) -> None:
        """Have the background make what takes long: close names and the cards of relations."""
        self.entities.prepare()
        self._cards.prepare(np.argsort(-self.facts.counts, kind="stable").tolist())

    # -- the graph --------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """The run and its graph in a few words."""
        return {
            "graph": self.graph.name,
            "run": repr(self.run),
            "members": self._cards.members,
            "entities": len(self.graph.entities),
            "relations": len(self.graph.relations),
            "facts": len(self.facts),
            "calibrated": self._calibrated,
            "audited": self._doubts is not None,
            "examples": self.examples,
            "version": bilink.__version__,
        }

    @cached_property
    def examples(self) -> list[dict[str, Any]]:
        """Questions worth a try: frequent relations, each with the head that has most facts."""
        found: list[dict[str, Any]] = []
        for r in np.argsort(-self.facts.counts, kind="stable")[: 4 * EXAMPLES].tolist():
            heads, counts = self.facts.ends(r, "head")
            if len(found) < EXAMPLES and len(heads) and counts.max() > 1:
                head = int(heads[np.lexsort((heads, -counts))[0]])
                found.append({"head": self.entities.row(head), "relation": self.relations.row(r)})
        return found

    def search(self, text: str, kind: str, k: int, offset: int = 0) -> dict[str, Any]:
        """The best matches of what was typed."""
        names = self.relations if kind == "relation" else self.entities
        found, more = names.search(text, k, offset)
        return {"matches": [names.row(i) for i in found], "offset": offset, "more": more}

    # -- questions --------------------------------------------------------------------------------

    def ids(
        self, head: str | None, relation: str | None, tail: str | None
    ) -> tuple[int | None, int | None, int | None]:
        """The ids of the names of a question that makes sense."""
        h, t = (None if text is None else self.entities.find(text) for text in (head, tail))
        r = None if relation is None else self.relations.find(relation)
        if None not in (h, r, t):
            raise ConfigError("leave one of head, relation and tail open, or ask for a score")
        if r is None and (h is None) != (t is None):
            raise ConfigError("give a relation, or the other entity, as well")
        return h, r, t

    def query(
        self,
        head: str | None,
        relation: str | None,
        tail: str | None,
        k: int,
        new: bool,
        seen: bool,
        any_entity: bool = False,
        missing: float | None = None,
        offset: int = 0,
    ) -> dict[str, Any]:
        """The answers to a question with an entity, which leaves one of the three open.

        With ``seen``, only entities that training has in that position of the relation; with
        ``any_entity``, also those that make no sense.
        """
        h, r, t = self.ids(head, relation, tail)
        answers = self.run.query_ids(
            *(h, r, t),
            k=k,
            new=new,
            only="seen" if seen and r is not None else None,
            any_entity=any_entity,
            missing=missing,
            offset=offset,
        )
        return self.shown(answers, offset)

    def shown(self, answers: Answers, offset: int = 0) -> dict[str, Any]:
        """The answers for JSON."""
        return {
            "question": answers.question,
            "answers": [self._answer(answer) for answer in answers],
            "missing": answers.missing,
            "left_out": [asdict(part) for part in answers.left_out],
            "offset": offset,
            "more": answers.more,
        }

    def ask(
        self, head: str | None, relation: str | None, tail: str | None, **options: Any
    ) -> dict[str, Any]:
        """The answers to a question with or without an entity."""
        if head is None and tail is None:
            return self.pairs(relation, **options)
        return self.query(head, relation, tail, **options)

    def pairs(
        self, relation: str | None, *, k: int, offset: int = 0, **options: Any
    ) -> dict[str, Any]:
        """The answers to (?, r, ?) and (?, ?, ?); ``options`` are those of ``query``."""
        if relation is None:
            return self._new_facts(k, offset, options)
        found = self._found_pairs(self.relations.find(relation), offset + k + 1, options)
        page = list(found)[offset : offset + k]
        return self._page_of_pairs(found, page, offset, offset + k)

    def _new_facts(self, k: int, offset: int, options: dict[str, Any]) -> dict[str, Any]:
        """New facts of all relations: a page takes the best that no page before it has.

        How many of one relation there may be depends on how many there are in all, so the first of
        many are not the same as the best few.
        """
        shown: set[tuple[str, str, str]] = set()
        for end in range(offset % k or k, offset + k + 1, k):
            found = self._found_pairs(None, end, options)
            left = [row for row in found if (row.head, row.relation, row.tail) not in shown]
            page = left[: end - len(shown)]
            shown |= {(row.head, row.relation, row.tail) for row in page}
        return self._page_of_pairs(found, page, offset, offset + k - 1)

    def _page_of_pairs(
        self, found: Answers, page: Sequence[Answer], offset: int, most: int
    ) -> dict[str, Any]:
        rows = [replace(row, rank=offset + i) for i, row in enumerate(page, start=1)]
        more = len(found) > most
        return self.shown(
            Answers(found.question, rows, found.missing, found.left_out, more), offset
        )

    def _found_pairs(self, r: int | None, k: int, options: dict[str, Any]) -> Answers:
        found = self._search_pairs(r, k, **options)
        if found is None:
            raise QueryStopped(
                f"A search of all pairs takes more than {LONGEST_SEARCH:.0f} seconds here; limit "
                "it to entities seen in that position, or use `bilink query`."
            )
        return found

    def _try_pairs(
        self, r: int | None, k: int, *, new: bool, seen: bool, **options: Any
    ) -> Answers | None:
        """The answers, or None where the search was stopped, as it would be the next time."""
        end = time.monotonic() + LONGEST_SEARCH
        try:
            return self.run.query_ids(
                *(None, r, None),
                k=k,
                new=new or r is None,
                only="seen" if seen else None,
                stop=lambda: self.closing.is_set() or time.monotonic() > end,
                **options,
            )
        except QueryStopped:
            if self.closing.is_set():
                raise
            return None

    def _answer(self, answer: Answer) -> dict[str, Any]:
        return {
            **self._decided(answer.head, answer.relation, answer.tail),
            "label": printable(answer.label),
            "score": finite(answer.score),
            "probability": finite(answer.probability),
            "rank": answer.rank,
            "known": answer.known,
        }

    def _decided(self, head: str, relation: str, tail: str) -> dict[str, Any]:
        """A triple and what was decided about it."""
        decision = self.decisions.decision(head, relation, tail)
        return {**self.triple(head, relation, tail), "decision": decision}

    def triple(self, head: str, relation: str, tail: str) -> dict[str, str]:
        """The three names, and what to show for them."""
        entities, relations = self.graph.entities.labels, self.graph.relations.labels
        return {
            "head": head,
            "relation": relation,
            "tail": tail,
            "head_label": printable(entities.get(head, head)),
            "relation_label": printable(relations.get(relation, relation)),
            "tail_label": printable(entities.get(tail, tail)),
        }

    def _ids(self, head: str, relation: str, tail: str) -> tuple[int, int, int]:
        return self.entities.find(head), self.relations.find(relation), self.entities.find(tail)

    def _named(self, h: int, r: int, t: int) -> dict[str, Any]:
        entities, relations = self.graph.entities.names, self.graph.relations.names
        return self._decided(entities[h], relations[r], entities[t])

    def score(
        self, triples: Sequence[tuple[str, str, str]], missing: float | None = None
    ) -> dict[str, Any]:
        """Scores and probabilities of triples, and whether the graph holds them.

        A triple with an unknown name has an error in place of them.
        """
        share = check_missing(MISSING if missing is None else missing)
        rows: list[tuple[int, int, int]] = []
        found: list[dict[str, Any] | None] = []
        for triple in triples:
            try:
                rows.append(self._ids(*triple))
                found.append(None)
            except DataError as error:
                found.append({"error": describe(error)[1]})
        scored = iter(self._scored(rows, share))
        return {
            "scores": [next(scored) if row is None else row for row in found],
            "missing": share if self._calibrated else None,
        }

    def _scored(self, rows: list[tuple[int, int, int]], share: float) -> list[dict[str, Any]]:
        ids = np.array(rows, dtype=np.int32).reshape(-1, 3)
        scores = self.run.scorer.score(ids)
        found = zip(rows, scores, self.run.chances(ids, share), strict=True)
        return [
            {
                **self._named(*row),
                "score": finite(score),
                "probability": finite(probability),
                "known": self.facts.hold(*row),
            }
            for row, score, probability in found
        ]

    def explain(
        self, head: str, relation: str, tail: str, missing: float | None = None
    ) -> dict[str, Any]:
        """How likely a triple is, and what speaks for it."""
        named = self._named(*self._ids(head, relation, tail))
        found = self.run.explain(head, relation, tail, missing=missing)
        return {
            **named,
            "score": finite(found.score),
            "probability": finite(found.probability),
            "missing": found.missing,
            "ranks": found.ranks,
            "known": found.known,
            "members": [asdict(member) for member in found.members],
            "rules": [_rule(rule) for rule in found.rules],
            "against": [
                {"fact": _shown(other.fact), "rule": _rule(other.rule)} for other in found.against
            ],
            "support": [_supporting(row) for row in found.support],
            "analogies": [_supporting(row) for row in found.analogies],
            "paths": [[_shown(fact) for fact in path] for path in found.paths],
            "note": found.note,
        }

    # -- entities ---------------------------------------------------------------------------------

    def entity(self, name: str) -> dict[str, Any]:
        """An entity's facts, by relation and direction, and those in doubt."""
        i = self.entities.find(name)
        row, doubts = self.entities.row(i), self._doubts
        mine = [doubt for doubt in doubts or () if row["name"] in (doubt["head"], doubt["tail"])]
        return {
            **row,
            "groups": [
                {
                    "relation": self.relations.row(r),
                    "side": side,
                    "count": len(others),
                    "entities": [self.entities.row(j) for j in others[:SHOWN].tolist()],
                }
                for r, side, others in self.facts.groups(i)
            ],
            "doubts": None if doubts is None else [self._doubt(row) for row in mine[:SHOWN]],
        }

    def facts_of(
        self, entity: str, relation: str, side: str, k: int, offset: int = 0
    ) -> dict[str, Any]:
        """The entities on ``side`` of an entity's facts with a relation.

        The best connected come first.
        """
        others = self.facts.group(self.entities.find(entity), self.relations.find(relation), side)
        page = others[offset : offset + k].tolist()
        return {
            "entities": [self.entities.row(i) for i in page],
            "count": len(others),
            "offset": offset,
            "more": len(others) > offset + k,
        }

    def neighbours(self, name: str, k: int) -> dict[str, Any]:
        """The entities whose vectors point most nearly the same way."""
        i = self.entities.find(name)
        similarity = self._directions @ self._directions[i]
        similarity[i] = -np.inf
        k = min(k, len(similarity) - 1)
        best = np.argpartition(-similarity, k)[:k] if k else np.empty(0, dtype=np.int64)
        best = best[np.lexsort((best, -similarity[best]))]
        return {
            "neighbours": [
                {**self.entities.row(j), "similarity": finite(similarity[j])} for j in best.tolist()
            ]
        }

    def neighbourhood(self, name: str, size: int) -> dict[str, Any]:
        """An entity, some of the entities that it has facts with, and the facts among all these."""
        nodes, edges = self.facts.around(self.entities.find(name), size)
        return {
            "nodes": [self.entities.row(i) for i in nodes],
            "edges": [{"head": h, "relation": r, "tail": t} for h, r, t in edges],
            "relations": {str(r): self.relations.row(r) for r in sorted({r for _, r, _ in edges})},
        }

    @cached_property
    def _directions(self) -> np.ndarray:
        return directions(self.run.scorer)

    # -- relations --------------------------------------------------------------------------------

    def relation(self, name: str, seconds: float = math.inf) -> dict[str, Any]:
        """A relation in numbers, what models can make of it, how far its scores can be trusted.

        What the background has not prepared after so many seconds is left out.
        """
        r = self.relations.find(name)
        card = self._cards.card(r, seconds)
        card["related"] = [{**self.relations.row(row.pop("id")), **row} for row in card["related"]]
        return {**self.relations.row(r), **card}

    def weights(self) -> dict[str, Any]:
        """Which share of the score each member of the ensemble carries, by relation and side."""
        return {"members": self._cards.members, "relations": list(self._cards.weights.values())}

    # -- doubts and the map -----------------------------------------------------------------------

    def audit(self, k: int, relation: str | None = None, offset: int = 0) -> dict[str, Any]:
        """The facts that look wrong, most doubtful first, if there was an audit."""
        rows = self._doubts or []
        if relation is not None:
            name = self.graph.relations.names[self.relations.find(relation)]
            rows = [row for row in rows if row["relation"] == name]
        return {
            "audited": self._doubts is not None,
            "command": f"bilink audit {self.run.path}",
            "doubts": [self._doubt(row) for row in rows[offset : offset + k]],
            "count": len(rows),
            "offset": offset,
            "more": len(rows) > offset + k,
        }

    def _doubt(self, row: dict[str, Any]) -> dict[str, Any]:
        decision = self.decisions.decision(row["head"], row["relation"], row["tail"])
        return {**row, "decision": decision}

    @cached_property
    def _doubts(self) -> list[dict[str, Any]] | None:
        return doubts_of(self.run)

    def map(self, relation: str | None = None) -> dict[str, Any]:
        """Entities as points; with a relation, whether each one is a head or a tail of it."""
        drawn, names = self._map, self.graph.entities
        position = None
        if relation is not None:
            r = self.relations.find(relation)
            is_head, is_tail = (
                np.isin(drawn.ids, self.facts.ends(r, side)[0]) for side in ("head", "tail")
            )
            position = (is_head + 2 * is_tail).tolist()
        return {
            "of": len(names),
            "names": [names.names[i] for i in drawn.ids],
            "labels": [printable(names.label(i)) for i in drawn.ids],
            "facts": self.facts.degrees[drawn.ids].tolist(),
            "x": drawn.points[:, 0].round(4).astype(float).tolist(),
            "y": drawn.points[:, 1].round(4).astype(float).tolist(),
            "cluster": drawn.clusters.tolist(),
            "position": position,
        }

    @cached_property
    def _map(self) -> Map:
        return draw_map(self._directions, self.facts.degrees)


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "sentence": printable(rule.sentence),
        "confidence": rule.confidence,
        "evidence": [_shown(fact) for fact in rule.evidence],
    }


def _supporting(row: Support) -> dict[str, Any]:
    return {"fact": _shown(row.fact), "value": finite(row.value)}


def _shown(fact: Fact) -> tuple[str, ...]:
    return tuple(map(printable, fact))
