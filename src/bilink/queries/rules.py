"""Rules for people: as sentences, with examples, and as the evidence for one triple.

A rule reads "X borders Y ← Y borders X, 0.98, 612 of 624": its head, its body, its confidence, and
for how many of the pairs for which the body holds the head holds as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bilink._text import html_table, printable
from bilink.data.graph import Graph
from bilink.errors import ConfigError
from bilink.paths.adjacency import Edges
from bilink.paths.model import PathModel
from bilink.paths.scorer import PathScorer
from bilink.queries.answers import check_count

Fact = tuple[str, str, str]  # labels
_MIDDLES = ("A", "B")


@dataclass(frozen=True)
class Rule:
    """A rule, with what was counted and facts for which it holds."""

    relation: str
    head: str
    body: str
    confidence: float
    support: int
    groundings: int
    evidence: list[Fact]  # of one example: the facts of its body

    @property
    def sentence(self) -> str:
        """The rule in one line."""
        return (
            f"{self.head} ← {self.body}, {self.confidence:.2f}, "
            f"{self.support:,} of {self.groundings:,}"
        )


@dataclass(frozen=True)
class RuleList(Sequence[Rule]):
    """Rules, the most confident first.  Printed, one line each."""

    rules: list[Rule]

    def __getitem__(self, i: Any) -> Any:
        return self.rules[i]

    def __len__(self) -> int:
        return len(self.rules)

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink rules --json`` prints it."""
        return {"rules": [{**asdict(rule), "sentence": rule.sentence} for rule in self.rules]}

    def __repr__(self) -> str:
        return "\n".join(printable(rule.sentence) for rule in self.rules) or "no rules"

    def _repr_html_(self) -> str:
        rows = [
            (f"{rule.head} ← {rule.body}", f"{rule.confidence:.2f}", rule.support, rule.groundings)
            for rule in self.rules
        ]
        return html_table(("rule", "confidence", "holds for", "of"), rows)


def list_rules(
    models: Mapping[str, PathModel], graph: Graph, relation: str | None = None, k: int = 10
) -> RuleList:
    """The ``k`` most confident rules of one relation, or of all."""
    check_count(k)
    if not models:
        raise ConfigError(
            "this run has no rules; mine some with 'bilink train DATA --model paths', and add them "
            "with 'bilink ensemble'"
        )
    chosen = None if relation is None else graph.relations.find(relation)
    reader = RuleReader(next(iter(models.values())), graph)
    return RuleList(reader.best(chosen, k))


class RuleReader:
    """Reads the rules of a path model in the words of its graph."""

    def __init__(self, model: PathModel, graph: Graph):
        self._model, self._rules, self._graph = model, model.rules, graph
        self._k = model.rules.n_relations

    @property
    def _scorer(self) -> PathScorer:
        return self._model.scorer  # made when it is first asked for

    @property
    def _edges(self) -> Edges:
        return self._scorer.adjacency.edges

    # -- lists -----------------------------------------------------------------------------------

    def best(self, relation: int | None, k: int) -> list[Rule]:
        """The most confident paths and rules with constants; paths first where equal."""
        rules, n = self._rules, len(self._rules.paths)
        relations = np.concatenate([rules.paths[:, 0], rules.constants[:, 0] % max(self._k, 1)])
        trust = np.concatenate([rules.path_confidence, rules.constant_confidence])
        places = np.arange(len(trust))
        if relation is not None:
            places = places[relations == relation]
        order = np.lexsort((places, -trust[places]))[:k]
        return [
            self.path(i, self._example(i)) if i < n else self.constant(i - n, [])
            for i in places[order].tolist()
        ]

    def path(self, i: int, evidence: list[Fact]) -> Rule:
        """Path number i."""
        relation, *steps = (int(d) for d in self._rules.paths[i])
        steps = [d for d in steps if d >= 0]
        names = ["X", *_MIDDLES[: len(steps) - 1], "Y"]
        body = [self._atom(d, names[j], names[j + 1]) for j, d in enumerate(steps)]
        return self._rule(
            relation,
            self._atom(relation, "X", "Y"),
            ", ".join(body),
            self._rules.path_confidence[i],
            self._rules.path_counts[i],
            evidence,
        )

    def constant(self, i: int, evidence: list[Fact]) -> Rule:
        """Rule with constants number i."""
        e, c, s, d = (int(x) for x in self._rules.constants[i])
        other = "something" if d < 0 else self._graph.entities.label(d)
        return self._rule(
            e % self._k,
            self._atom(e, "X", self._graph.entities.label(c)),
            self._atom(s, "X", other),
            self._rules.constant_confidence[i],
            self._rules.constant_counts[i],
            evidence,
        )

    def _rule(
        self,
        relation: int,
        head: str,
        body: str,
        confidence: float,
        counts: np.ndarray,
        evidence: list[Fact],
    ) -> Rule:
        name = self._graph.relations.names[relation]
        support, groundings = (int(n) for n in counts)
        return Rule(name, head, body, float(confidence), support, groundings, evidence)

    def _atom(self, directed: int, start: str, end: str) -> str:
        name = self._graph.relations.label(directed % self._k)
        return f"{start} {name} {end}" if directed < self._k else f"{end} {name} {start}"

    def _example(self, i: int) -> list[Fact]:
        """The facts of a body that holds together with its head."""
        relation, *steps = (int(d) for d in self._rules.paths[i])
        steps = [d for d in steps if d >= 0]
        for h in self._scorer.adjacency.starts(relation)[:200].tolist():
            for t in self._neighbours(h, relation).tolist()[:20]:
                walk = self._walk(h, t, steps)
                if walk:
                    return [self._fact(*edge) for edge in walk]
        return []

    # -- evidence --------------------------------------------------------------------------------

    def evidence(self, triple: np.ndarray, k: int) -> list[Rule]:
        """The rules that name a triple of ids, each with the facts of one walk, best first."""
        head, relation, tail = triple.tolist()
        found = [*self._paths_for(head, relation, tail, k)]
        found += self._constants_for(head, relation, tail)
        return sorted(found, key=lambda rule: -rule.confidence)[:k]

    def _paths_for(self, head: int, relation: int, tail: int, k: int) -> Iterator[Rule]:
        count = 0
        for i in self._rules.of_relation(relation):
            steps = [int(d) for d in self._rules.paths[i, 1:] if d >= 0]
            walk = self._walk(head, tail, steps)
            if walk:
                yield self.path(i, [self._fact(*edge) for edge in walk])
                count += 1
                if count == k:
                    return

    def _constants_for(self, head: int, relation: int, tail: int) -> Iterator[Rule]:
        rows = self._rules.constants
        for directed, x, c in ((relation, head, tail), (relation + self._k, tail, head)):
            for i in np.flatnonzero((rows[:, 0] == directed) & (rows[:, 1] == c)).tolist():
                s, d = int(rows[i, 2]), int(rows[i, 3])
                others = self._neighbours(x, s)
                if s == directed:  # the fact itself is no evidence
                    others = others[others != c]
                if d >= 0:
                    others = others[others == d]
                if len(others):
                    yield self.constant(i, [self._fact(x, s, int(others[0]))])

    def _neighbours(self, entity: int, directed: int) -> np.ndarray:
        edges = self._edges
        first, last = edges.groups[entity], edges.groups[entity + 1]
        group = first + np.searchsorted(edges.group_relation[first:last], directed)
        if group == last or edges.group_relation[group] != directed:
            return edges.neighbours[:0]
        return edges.neighbours[edges.group_start[group] : edges.group_start[group + 1]]

    def _walk(self, start: int, end: int, steps: Sequence[int]) -> list[tuple[int, int, int]]:
        """One walk along ``steps`` over entities that all differ, as its edges; or nothing."""
        return self._walk_on([start], end, steps) if start != end else []

    def _walk_on(
        self, visited: list[int], end: int, steps: Sequence[int]
    ) -> list[tuple[int, int, int]]:
        here, directed = visited[-1], steps[0]
        neighbours = self._neighbours(here, directed)
        if len(steps) == 1:
            return [(here, directed, end)] if end in neighbours else []
        hub = self._rules.config.hub
        for z in neighbours.tolist():
            if z == end or z in visited or self._scorer.adjacency.degree_of(z) > hub:
                continue
            rest = self._walk_on([*visited, z], end, steps[1:])
            if rest:
                return [(here, directed, z), *rest]
        return []

    def _fact(self, start: int, directed: int, end: int) -> Fact:
        if directed >= self._k:
            start, end = end, start
        label = self._graph.entities.label
        return label(start), self._graph.relations.label(directed % self._k), label(end)
