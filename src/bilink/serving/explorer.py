"""What the server says about a run, as plain dictionaries ready for JSON."""

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

import bilink
from bilink.data.vocabulary import printable
from bilink.errors import ConfigError, DataError, QueryStopped
from bilink.queries.explain import Fact, Support
from bilink.runs.run import Run
from bilink.serving.doubt_rows import doubts_of
from bilink.serving.drawing import Map, directions, draw_map, surroundings
from bilink.serving.facts import Facts
from bilink.serving.lanes import SlowError
from bilink.serving.names import Names
from bilink.serving.numbers import finite
from bilink.serving.relation_cards import RelationCards

LONGEST_SEARCH = 120.0  # seconds
SHOWN = 24  # facts of an entity that are shown for each relation and direction
EXAMPLES = 3


class Explorer:
    """A run, with the indexes that make its answers quick."""

    def __init__(self, run: Run):
        self.run, self.graph = run, run.graph
        entities, relations = self.graph.entities, self.graph.relations
        self.facts = Facts(self.graph.triples, len(entities))
        self._counts = np.bincount(self.facts.triples[:, 1], minlength=len(relations))
        self.entities = Names(entities, self.facts.degrees)
        self.relations = Names(relations, self._counts)
        self._pairs = lru_cache(64)(self._search_pairs)  # these take long
        self.chance = run.probability  # from triples and scores to probabilities, or None
        self._cards = RelationCards(run)
        self.warm_up()

    def warm_up(self) -> None:
        """Ask a few questions, so that the first caller waits for no compiling and no index."""
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
            "calibrated": self.chance is not None,
            "audited": self.audit(k=1)["audited"],
            "examples": self.examples,
            "version": bilink.__version__,
        }

    @cached_property
    def examples(self) -> list[dict[str, Any]]:
        """Questions worth a try: frequent relations, each of its busiest head."""
        found: list[dict[str, Any]] = []
        for r in np.argsort(-self._counts, kind="stable")[: 4 * EXAMPLES]:
            rows = self.facts.triples[self.facts.triples[:, 1] == r]
            heads, counts = np.unique(rows[:, 0], return_counts=True)
            if len(found) < EXAMPLES and len(heads) and counts.max() > 1:
                head = heads[np.lexsort((heads, -counts))[0]]
                found.append({"head": self._entity(head), "relation": self._relation(int(r))})
        return found

    def search(self, text: str, kind: str, k: int) -> dict[str, Any]:
        """The best matches of what was typed."""
        if kind == "relation":
            ids = self.relations.search(text, k)
            return {"matches": [self._relation(i) for i in ids]}
        return {"matches": [self._entity(i) for i in self.entities.search(text, k)]}

    def _entity(self, i: int) -> dict[str, Any]:
        names = self.graph.entities
        return {
            "name": names.names[i],
            "label": printable(names.label(i)),
            "facts": int(self.facts.degrees[i]),
        }

    def _relation(self, i: int) -> dict[str, Any]:
        names = self.graph.relations
        return {
            "name": names.names[i],
            "label": printable(names.label(i)),
            "facts": int(self._counts[i]),
        }

    # -- questions --------------------------------------------------------------------------------

    def query(
        self,
        head: str | None,
        relation: str | None,
        tail: str | None,
        k: int,
        new: bool,
        seen: bool,
    ) -> dict[str, Any]:
        """The answers to any question that leaves something open.

        With ``seen``, only entities that training has in that position of the relation.
        """
        given = {"head": self._name(head), "tail": self._name(tail)}
        if relation is not None:
            r = self.relations.find(relation)
            given["relation"] = self.graph.relations.names[r]
        given = {role: name for role, name in given.items() if name is not None}
        if len(given) == 3:
            raise ConfigError("leave one of head, relation and tail open, or ask for a score")
        if given.keys() == {"head"} or given.keys() == {"tail"}:
            raise ConfigError("give a relation, or the other entity, as well")
        only = "seen" if seen and ("relation" in given or not given) else None
        if not given:
            answers = self.run.new_facts(k, only=only, stop=_alarm())
        elif given.keys() == {"relation"}:
            answers = self.run.query(**given, k=k, new=new, only=only, stop=_alarm())
        else:
            answers = self.run.query(**given, k=k, new=new, only=only)
        return {
            "question": answers.question,
            "answers": [self._answer(answer) for answer in answers],
        }

    def pairs(self, relation: str | None, k: int, new: bool, seen: bool) -> dict[str, Any]:
        """The answers to (?, r, ?) and (?, ?, ?)."""
        found = self._pairs(relation, k, new, seen)
        if found is None:
            raise SlowError(
                f"A search of all pairs takes more than {LONGEST_SEARCH:.0f} seconds here; limit "
                "it to entities seen in that position, or use `bilink query`."
            )
        return found

    def _search_pairs(
        self, relation: str | None, k: int, new: bool, seen: bool
    ) -> dict[str, Any] | None:
        """The answers, or None where the search had to be stopped, which the next one would be."""
        try:
            return self.query(None, relation, None, k, new, seen)
        except QueryStopped:
            return None

    def _name(self, text: str | None) -> str | None:
        return None if text is None else self.graph.entities.names[self.entities.find(text)]

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
        entities, relations = self.graph.entities, self.graph.relations
        return {
            "head": head,
            "relation": relation,
            "tail": tail,
            "head_label": printable(entities.labels.get(head, head)),
            "relation_label": printable(relations.labels.get(relation, relation)),
            "tail_label": printable(entities.labels.get(tail, tail)),
        }

    def _fact_chances(self, ids: np.ndarray, scores: np.ndarray) -> list[float | None]:
        """How likely triples are true that nobody has chosen; nothing without validation."""
        try:
            return list(self.run.calibration("facts").probabilities(ids, scores).tolist())
        except DataError:
            return [None] * len(ids)

    def score(self, triples: list[tuple[str, str, str]]) -> dict[str, Any]:
        """Scores of triples, and whether the graph holds them."""
        find = self.entities.find, self.relations.find, self.entities.find
        rows = [tuple(f(text) for f, text in zip(find, row, strict=True)) for row in triples]
        ids = np.array(rows, dtype=np.int32).reshape(-1, 3)
        scores = self.run.scorer.score(ids)
        chances = self._fact_chances(ids, scores)
        names, verbs = self.graph.entities.names, self.graph.relations.names
        return {
            "scores": [
                {
                    **self._triple(names[h], verbs[r], names[t]),
                    "score": finite(score),
                    "probability": finite(probability),
                    "known": self.facts.holds(h, r, t),
                }
                for (h, r, t), score, probability in zip(rows, scores, chances, strict=True)
            ]
        }

    def explain(self, head: str, relation: str, tail: str) -> dict[str, Any]:
        """Why the run thinks so."""
        names, verbs = self.graph.entities.names, self.graph.relations.names
        h, t = (names[self.entities.find(text)] for text in (head, tail))
        r = verbs[self.relations.find(relation)]
        found = self.run.explain(h, r, t)
        return {
            **self._triple(h, r, t),
            "score": finite(found.score),
            "ranks": found.ranks,
            "known": found.known,
            "members": [asdict(member) for member in found.members],
            "support": [_supporting(row) for row in found.support],
            "analogies": [_supporting(row) for row in found.analogies],
            "paths": [[_shown(fact) for fact in path] for path in found.paths],
            "note": found.note,
        }

    # -- entities ---------------------------------------------------------------------------------

    def entity(self, name: str) -> dict[str, Any]:
        """An entity's facts, by relation and direction, and those in doubt."""
        i = self.entities.find(name)
        groups = [
            {
                "relation": self._relation(group["relation"]),
                "side": group["side"],
                "count": len(group["others"]),
                "entities": [self._entity(j) for j in group["others"][:SHOWN].tolist()],
            }
            for group in self.facts.groups(i)
        ]
        found = self._doubts
        me = self.graph.entities.names[i]
        mine = [row for row in found or () if me in (row["head"], row["tail"])]
        return {
            **self._entity(i),
            "groups": groups,
            "doubts": None if found is None else mine[:SHOWN],
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
                {**self._entity(int(j)), "similarity": finite(similarity[j])} for j in best
            ]
        }

    def neighbourhood(self, name: str, size: int) -> dict[str, Any]:
        """An entity, some of the entities that it has facts with, and the facts among all these."""
        nodes, edges = surroundings(self.facts, self.entities.find(name), size)
        used = {r for _, r, _ in edges}
        return {
            "nodes": [self._entity(i) for i in nodes],
            "edges": [{"head": h, "relation": r, "tail": t} for h, r, t in edges],
            "relations": {str(r): self._relation(r) for r in sorted(used)},
        }

    @cached_property
    def _directions(self) -> np.ndarray:
        return directions(self.run.scorer)

    # -- relations --------------------------------------------------------------------------------

    def relation(self, name: str) -> dict[str, Any]:
        """A relation in numbers, what models can make of it, how far its scores can be trusted."""
        r = self.relations.find(name)
        card = self._cards.card(r)
        card["related"] = [{**self._relation(row.pop("id")), **row} for row in card["related"]]
        return {**self._relation(r), **card}

    def weights(self) -> dict[str, Any]:
        """Which share of the score each member of the ensemble carries, by relation and side."""
        return {"members": self._cards.members, "relations": list(self._cards.weights.values())}

    # -- doubts and the map -----------------------------------------------------------------------

    def audit(self, k: int, relation: str | None = None) -> dict[str, Any]:
        """The facts that look wrong, most doubtful first, if they were looked for."""
        found = self._doubts
        rows = found or []
        if relation is not None:
            name = self.graph.relations.names[self.relations.find(relation)]
            rows = [row for row in rows if row["relation"] == name]
        return {
            "audited": found is not None,
            "command": f"bilink audit {self.run.path}",
            "doubts": rows[:k],
        }

    @cached_property
    def _doubts(self) -> list[dict[str, Any]] | None:
        return doubts_of(self.run)

    def map(self, relation: str | None = None) -> dict[str, Any]:
        """Every entity as a point; with a relation, whether it stands before or after that one."""
        drawn, names = self._map, self.graph.entities
        position = None
        if relation is not None:
            r = self.relations.find(relation)
            rows = self.facts.triples[self.facts.triples[:, 1] == r]
            before, after = np.isin(drawn.ids, rows[:, 0]), np.isin(drawn.ids, rows[:, 2])
            position = (before + 2 * after).tolist()
        return {
            "of": len(names),
            "names": [names.names[i] for i in drawn.ids],
            "labels": [printable(names.label(i)) for i in drawn.ids],
            "facts": self.facts.degrees[drawn.ids].tolist(),
            "x": drawn.places[:, 0].round(4).astype(float).tolist(),
            "y": drawn.places[:, 1].round(4).astype(float).tolist(),
            "cluster": drawn.clusters.tolist(),
            "position": position,
        }

    @cached_property
    def _map(self) -> Map:
        return draw_map(self._directions, self.facts.degrees)


def _supporting(row: Support) -> dict[str, Any]:
    return {"fact": _shown(row.fact), "value": finite(row.value)}


def _shown(fact: Fact) -> tuple[str, ...]:
    return tuple(map(printable, fact))


def _alarm() -> Callable[[], bool]:
    """Becomes true when a search has taken too long for anyone to wait."""
    end = time.monotonic() + LONGEST_SEARCH
    return lambda: time.monotonic() > end
