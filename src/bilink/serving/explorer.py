"""What the server answers about a run, as plain dictionaries ready for JSON."""

import time
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

import bilink
from bilink._text import printable
from bilink.data.graph import SPLITS, Graph
from bilink.data.index import known_answers
from bilink.data.vocabulary import Vocabulary
from bilink.errors import ConfigError, DataError, QueryStopped
from bilink.evaluation.probability import MISSING, check_missing
from bilink.queries.explain import Fact, Support
from bilink.queries.rules import Rule
from bilink.runs.run import Run
from bilink.serving.cards import RelationCards, doubts_of, finite
from bilink.serving.drawing import Map, directions, draw_map

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


@dataclass(frozen=True, eq=False)
class Names:
    """Entities or relations as people type and read them."""

    vocabulary: Vocabulary
    facts: np.ndarray  # how many each id has

    def search(self, text: str, k: int) -> list[int]:
        """The ids of the ``k`` best matches of ``text``; those with many facts come first."""
        return self.vocabulary.search(text, k, self.facts)

    def find(self, text: str) -> int:
        """The id of a name or of an unambiguous label; else an error that suggests close names.

        Close names are those that the type-ahead search finds for the text or for its beginning:
        comparing the text with every name takes seconds where there are 100,000.
        """
        if text in self.vocabulary:
            return self.vocabulary.find(text)
        close = self.search(text[:40], 3) or self.search(text[:3], 3)
        meant = " or ".join(repr(self.vocabulary.names[i][:60]) for i in close)
        hint = f"; did you mean {meant}?" if meant else ""
        raise DataError(f"unknown {self.vocabulary.kind} {text[:60]!r}{hint}")

    def row(self, i: int) -> dict[str, Any]:
        """The name, the label and the number of facts of id ``i``."""
        return {
            "name": self.vocabulary.names[i],
            "label": printable(self.vocabulary.label(i)),
            "facts": int(self.facts[i]),
        }


class Explorer:
    """A run, with the indexes that make its answers quick."""

    def __init__(self, run: Run):
        self.run, self.graph = run, run.graph
        self.facts = Facts(self.graph)
        self.entities = Names(self.graph.entities, self.facts.degrees)
        self.relations = Names(self.graph.relations, self.facts.counts)
        self._search_pairs = lru_cache(64)(self._try_pairs)  # these searches take long
        self._calibrated = run.judge is not None
        self._cards = RelationCards(run)
        # A few questions, so that the first caller waits for no compiling and no index.
        self.search("", "entity", 1)
        if len(self.graph.entities) and len(self.graph.relations):
            entity, relation = self.graph.entities.names[0], self.graph.relations.names[0]
            self.query(entity, relation, None, 1, new=False, seen=True)
            self.query(entity, None, entity, 1, new=False, seen=True)
            self.score([(entity, relation, entity)])

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

    def search(self, text: str, kind: str, k: int) -> dict[str, Any]:
        """The best matches of what was typed."""
        names = self.relations if kind == "relation" else self.entities
        return {"matches": [names.row(i) for i in names.search(text, k)]}

    # -- questions --------------------------------------------------------------------------------

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
    ) -> dict[str, Any]:
        """The answers to a question that leaves at least one of the three open.

        With ``seen``, only entities that training has in that position of the relation; with
        ``any_entity``, also those that make no sense.
        """
        h, t = (None if text is None else self.entities.find(text) for text in (head, tail))
        r = None if relation is None else self.relations.find(relation)
        if None not in (h, r, t):
            raise ConfigError("leave one of head, relation and tail open, or ask for a score")
        if r is None and (h is None) != (t is None):
            raise ConfigError("give a relation, or the other entity, as well")
        nothing = h is None and r is None and t is None
        only = "seen" if seen and (r is not None or nothing) else None
        end = time.monotonic() + LONGEST_SEARCH
        answers = self.run.query_ids(
            *(h, r, t),
            k=k,
            new=new or nothing,
            only=only,
            any_entity=any_entity,
            missing=missing,
            stop=lambda: time.monotonic() > end,
        )
        return {
            "question": answers.question,
            "answers": [self._answer(answer) for answer in answers],
            "missing": answers.missing,
            "left_out": [asdict(part) for part in answers.left_out],
        }

    def pairs(self, relation: str | None, **options: Any) -> dict[str, Any]:
        """The answers to (?, r, ?) and (?, ?, ?); ``options`` are those of ``query``."""
        found = self._search_pairs(relation, **options)
        if found is None:
            raise QueryStopped(
                f"A search of all pairs takes more than {LONGEST_SEARCH:.0f} seconds here; limit "
                "it to entities seen in that position, or use `bilink query`."
            )
        return found

    def _try_pairs(self, relation: str | None, **options: Any) -> dict[str, Any] | None:
        """The answers, or None where the search was stopped, as it would be the next time."""
        try:
            return self.query(None, relation, None, **options)
        except QueryStopped:
            return None

    def _answer(self, answer: Any) -> dict[str, Any]:
        return {
            **self._triple(answer.head, answer.relation, answer.tail),
            "label": printable(answer.label),
            "score": finite(answer.score),
            "probability": finite(answer.probability),
            "rank": answer.rank,
            "known": answer.known,
        }

    def _triple(self, head: str, relation: str, tail: str) -> dict[str, str]:
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

    def _named(self, h: int, r: int, t: int) -> dict[str, str]:
        entities, relations = self.graph.entities.names, self.graph.relations.names
        return self._triple(entities[h], relations[r], entities[t])

    def score(
        self, triples: list[tuple[str, str, str]], missing: float | None = None
    ) -> dict[str, Any]:
        """Scores and probabilities of triples, and whether the graph holds them."""
        share = check_missing(MISSING if missing is None else missing)
        rows = [self._ids(*triple) for triple in triples]
        ids = np.array(rows, dtype=np.int32).reshape(-1, 3)
        scores = self.run.scorer.score(ids)
        found = zip(rows, scores, self.run.chances(ids, share), strict=True)
        return {
            "scores": [
                {
                    **self._named(*row),
                    "score": finite(score),
                    "probability": finite(probability),
                    "known": self.facts.hold(*row),
                }
                for row, score, probability in found
            ],
            "missing": share if self._calibrated else None,
        }

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
            "doubts": None if doubts is None else mine[:SHOWN],
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

    def relation(self, name: str) -> dict[str, Any]:
        """A relation in numbers, what models can make of it, how far its scores can be trusted."""
        r = self.relations.find(name)
        card = self._cards.card(r)
        card["related"] = [{**self.relations.row(row.pop("id")), **row} for row in card["related"]]
        return {**self.relations.row(r), **card}

    def weights(self) -> dict[str, Any]:
        """Which share of the score each member of the ensemble carries, by relation and side."""
        return {"members": self._cards.members, "relations": list(self._cards.weights.values())}

    # -- doubts and the map -----------------------------------------------------------------------

    def audit(self, k: int, relation: str | None = None) -> dict[str, Any]:
        """The facts that look wrong, most doubtful first, if there was an audit."""
        rows = self._doubts or []
        if relation is not None:
            name = self.graph.relations.names[self.relations.find(relation)]
            rows = [row for row in rows if row["relation"] == name]
        return {
            "audited": self._doubts is not None,
            "command": f"bilink audit {self.run.path}",
            "doubts": rows[:k],
        }

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
