"""Why does a run think so?  The facts, members and paths behind one triple, as a small table.

All of it is approximate: a model has no reasons, only rows that many facts have moved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from bilink._text import html_text, printable
from bilink.data.graph import SPLITS, Graph
from bilink.data.index import FactIndex
from bilink.ensembles.mixture import MixtureScorer
from bilink.evaluation.probability import MISSING, check_missing
from bilink.evaluation.ranks import rank_triples
from bilink.models.model import Model
from bilink.models.scorer import SIDES, Scorer, Side
from bilink.paths.model import PathModel
from bilink.paths.walking import BEST_RULE
from bilink.queries.answers import check_count
from bilink.queries.rules import Fact, Rule, RuleReader

NEAREST = 50  # facts of the same relation that are asked for their influence
_GIVEN: dict[Side, int] = {"head": 2, "tail": 0}
NOTE = (
    "approximate: support is how much training on a fact pulls the same way, not a test by "
    "training without it; analogies and paths are what lies near, not what the model computes"
)
RULES_NOTE = "a rule is followed by its confidence, and by how often it holds in training"


class Explained(Protocol):
    """What is explained: a run."""

    graph: Graph

    @property
    def scorer(self) -> Scorer:
        """What ranks and answers."""

    @property
    def models(self) -> Mapping[str, Model]:
        """The models with embeddings that it is made of."""

    @property
    def path_models(self) -> Mapping[str, PathModel]:
        """The models of rules that it is made of."""

    @property
    def member_names(self) -> Sequence[str]:
        """The members of an ensemble, in the order of its scorer."""

    @property
    def known(self) -> FactIndex:
        """What the graph knows."""

    def chances(self, triples: np.ndarray, missing: float | None = None) -> list[float | None]:
        """How likely each triple of ids is true."""


@dataclass(frozen=True)
class Support:
    """A training fact and its share of the support, or its likeness to the answer, in [−1, 1]."""

    fact: Fact
    value: float


@dataclass(frozen=True)
class Member:
    """What a member adds to the score of the answer over that of the average candidate."""

    name: str
    head: float  # asked for the head
    tail: float
    share: float  # of the sum of all members, over both sides


@dataclass(frozen=True)
class OtherAnswer:
    """Another answer to the same question, which a rule names with more confidence."""

    fact: Fact
    rule: Rule


@dataclass(frozen=True)
class Explanation:
    """What speaks for a triple.  Printed, it is a small table."""

    triple: Fact
    score: float
    probability: float | None  # None for a training fact, and where none were learnt
    missing: float | None  # the share of facts thought missing, which it depends on
    ranks: dict[Side, float]  # among all entities in that place, known ones left out
    known: str | None  # the split that holds the triple
    members: list[Member]  # of an ensemble
    rules: list[Rule]  # that speak for it, with the facts that they rest on
    against: list[OtherAnswer]  # what rules say instead
    support: list[Support]
    analogies: list[Support]
    paths: list[list[Fact]]
    note: str = NOTE

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink explain --json`` prints it."""
        head, relation, tail = self.triple
        return {"head": head, "relation": relation, "tail": tail, **asdict(self)}

    def _rule_lines(self) -> list[str]:
        lines = ["rules that speak for it, and the facts that they rest on"] if self.rules else []
        for rule in self.rules:
            lines.append(f"  {printable(rule.sentence)}")
            lines.append("    since " + "; ".join(map(_sentence, rule.evidence)))
        if self.against:
            lines.append("rules that name another answer with more confidence")
        for other in self.against:
            lines.append(f"  {_sentence(other.fact)}: {printable(other.rule.sentence)}")
        return lines

    def __repr__(self) -> str:
        lines = [f"{_sentence(self.triple)}: {'in ' + self.known if self.known else 'new'}"]
        places = ", ".join(f"rank {self.ranks[side]:g} as {side}" for side in reversed(SIDES))
        if self.probability is not None and self.missing is not None:
            share = f"if {self.missing:.0%} of all facts are missing"
            lines.append(f"probability {self.probability:.1%}, {share}")
        lines.append(f"score {self.score:.3f}; {places}")
        if self.members:
            lines.append("members (share of the score above the average candidate)")
            lines += [
                f"  {member.share:>6.0%}  {printable(member.name)}" for member in self.members
            ]
        lines += self._rule_lines()
        for title, rows in (
            ("training facts that support it (share of the support)", self.support),
            ("analogous facts (likeness)", self.analogies),
        ):
            if rows:
                lines.append(title)
                lines += [f"  {row.value:>6.0%}  {_sentence(row.fact)}" for row in rows]
        if self.paths:
            lines.append("paths")
            lines += ["  " + "; ".join(map(_sentence, path)) for path in self.paths]
        return "\n".join([*lines, f"({self.note})"])

    def _repr_html_(self) -> str:
        lines = repr(self).split("\n")
        return f"<pre>{'<br>'.join(map(html_text, lines))}</pre>"


def _sentence(fact: Fact) -> str:
    return " · ".join(map(printable, fact))


def explain(
    run: Explained,
    head: str,
    relation: str,
    tail: str,
    k: int = 5,
    missing: float | None = None,
) -> Explanation:
    """Explain the score of (head, relation, tail) under the scorer of a run."""
    check_count(k)
    share = check_missing(MISSING if missing is None else missing)
    scorer, models, graph = run.scorer, run.models, run.graph
    find = graph.entities.find
    triple = np.array([find(head), graph.relations.find(relation), find(tail)])
    ranks = rank_triples(scorer, triple[None], run.known, threads=1)
    train = graph.train[~(graph.train == triple).all(axis=1)]  # a fact does not explain itself
    nearest, likeness = _nearest(models, triple, train)
    facts = _neighbourhood(triple, train, nearest[:NEAREST])
    held = np.zeros(len(facts))
    members = _members(scorer, [*run.member_names], triple)
    shares = {member.name: member.share for member in members}
    for name, model in models.items():
        held += shares.get(name, 1.0) * influences(model, triple, facts)
    best = np.argsort(-held, kind="stable")[:k]
    total = np.abs(held).sum() or 1.0
    rules, against = _rules(run, triple, k)
    (probability,) = run.chances(triple[None], share)
    return Explanation(
        triple=_labels(graph, triple),
        score=float(scorer.score(triple[None])[0]),
        probability=probability,
        missing=None if probability is None else share,
        ranks={side: float(ranks[side].values()[0]) for side in SIDES},
        known=_split_of(graph, triple),
        members=members,
        rules=rules,
        against=against,
        support=[
            Support(_labels(graph, facts[i]), float(held[i] / total)) for i in best if held[i] > 0
        ],
        analogies=[
            Support(_labels(graph, fact), float(value))
            for fact, value in zip(nearest[:k], likeness[:k], strict=True)
        ],
        paths=[[_labels(graph, fact) for fact in path] for path in _paths(triple, train)[:k]],
        note=NOTE if models else RULES_NOTE,
    )


def _rules(run: Explained, triple: np.ndarray, k: int) -> tuple[list[Rule], list[OtherAnswer]]:
    """The rules that name the triple, and others that name another tail or head more strongly."""
    for model in run.path_models.values():
        reader = RuleReader(model, run.graph)
        found = reader.evidence(triple, k)
        least = found[0].confidence if found else 0.0
        others = []
        for side, given in _GIVEN.items():
            for other in _named(model, run.known, side, triple[given], triple[1], k):
                fact = triple.copy()
                fact[2 - given] = other
                best = reader.evidence(fact, 1)
                if best and best[0].confidence > least:
                    others.append(OtherAnswer(_labels(run.graph, fact), best[0]))
        others.sort(key=lambda answer: -answer.rule.confidence)
        return found, others[:k]
    return [], []


def _named(
    model: PathModel, known: FactIndex, side: Side, given: int, relation: int, k: int
) -> list[int]:
    """The answers that are no facts and that rules are surest of."""
    asked = model.scorer.queries(side, np.array([given]), np.array([relation]))
    trust = model.scorer.features(asked)[BEST_RULE, 0]
    trust[known[side].of_query(int(given), int(relation))] = 0
    order = np.argsort(-trust, kind="stable")[:k]
    return [int(i) for i in order if trust[i] > 0]


def _labels(graph: Graph, triple: np.ndarray) -> Fact:
    h, r, t = (int(i) for i in triple)
    return graph.entities.label(h), graph.relations.label(r), graph.entities.label(t)


def _split_of(graph: Graph, triple: np.ndarray) -> str | None:
    held = (s for s in SPLITS if (graph.split(s) == triple).all(axis=1).any())
    return next(held, None)


def _members(scorer: Scorer, names: Sequence[str], triple: np.ndarray) -> list[Member]:
    """Each member's part of the score, less the same for the average candidate."""
    if not isinstance(scorer, MixtureScorer):
        return []
    parts: dict[Side, list[float]] = {side: [] for side in SIDES}
    for i, member in enumerate(scorer.members):
        for side, given in _GIVEN.items():
            scores = member.scores(side, triple[[given]], triple[[1]])[0]
            row = scorer.weights[side][triple[1], i] * scores.astype(np.float64)
            if scorer.offsets is not None:
                row = 1 / (1 + np.exp(-row - scorer.offsets[i])) / len(names)
            parts[side].append(float(row[triple[2 - given]] - row.mean()))
    sums = np.add(parts["head"], parts["tail"])
    shares = sums / (np.abs(sums).sum() or 1.0)
    rows = zip(names, parts["head"], parts["tail"], shares.tolist(), strict=True)
    return sorted((Member(*row) for row in rows), key=lambda member: -member.share)


def _nearest(
    models: Mapping[str, Model], triple: np.ndarray, train: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Facts of the same relation by the mean cosine of their heads and tails to the answer's."""
    facts = train[train[:, 1] == triple[1]]
    likeness = np.zeros(len(facts))
    for model in models.values():
        for column in (0, 2):
            rows, own = model.entities[facts[:, column]], model.entities[triple[column]]
            sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(own)
            likeness += rows @ own / np.maximum(sizes, 1e-12)
    likeness /= 2 * max(len(models), 1)
    order = np.argsort(-likeness, kind="stable")[: None if models else 0]
    return facts[order], likeness[order]


def _neighbourhood(triple: np.ndarray, train: np.ndarray, nearest: np.ndarray) -> np.ndarray:
    """Facts of the head, facts of the tail, and ``nearest``."""
    ends = np.isin(train[:, [0, 2]], triple[[0, 2]]).any(axis=1)
    return np.unique(np.concatenate([train[ends], nearest]), axis=0)


def _paths(triple: np.ndarray, train: np.ndarray) -> list[list[np.ndarray]]:
    """Ways from head to tail over at most two facts, direct ones first, then by the rarest middle.

    A fact may be gone along either way; three facts are tried where there is no shorter way.
    """
    head, tail = int(triple[0]), int(triple[2])
    ends = train[:, [0, 2]]
    of_head, of_tail = ((ends == e).any(axis=1) for e in (head, tail))
    direct = [[fact] for fact in train[of_head & of_tail] if head != tail]
    degrees = np.bincount(ends.ravel(), minlength=int(max(head, tail)) + 1)
    first, last = _by_other_end(train[of_head], head), _by_other_end(train[of_tail], tail)
    for e in (head, tail):
        first.pop(e, None)
        last.pop(e, None)
    middles = sorted(set(first) & set(last), key=lambda e: int(degrees[e]))
    two = [[first[e][0], last[e][0]] for e in middles]
    if direct or two:
        return direct + two
    near, far = np.isin(ends, list(first)), np.isin(ends, list(last))
    bridges = train[(near[:, 0] & far[:, 1]) | (near[:, 1] & far[:, 0])]
    three = []
    for fact in bridges[np.argsort(degrees[bridges[:, [0, 2]]].sum(axis=1), kind="stable")]:
        a, b = (int(e) for e in fact[[0, 2]])
        a, b = (a, b) if a in first and b in last else (b, a)
        three.append([first[a][0], fact, last[b][0]])
    return three


def _by_other_end(facts: np.ndarray, entity: int) -> dict[int, list[np.ndarray]]:
    found: dict[int, list[np.ndarray]] = {}
    for fact in facts:
        other = int(fact[2] if fact[0] == entity else fact[0])
        found.setdefault(other, []).append(fact)
    return found


# -- influence -------------------------------------------------------------------------------------
# Which training facts hold an answer's score up: the first-order change of one by the other.
#
# A step of training on a fact moves the rows of its head, relation and tail along the gradient of
# its score.  The score of the answer then moves by the inner product of the two gradients, over the
# rows that both share.  Here it is their cosine, summed over these rows, so that no row counts more
# for being long.  ``study/explanations.py`` holds it against training again without the facts.

# Placeholders that ``bind`` replaces by a model's kernel functions.
tail_query: Any = None
tail_backward: Any = None
query_gradient: Any = None
entity_gradient: Any = None
query_width: Any = None


def score_gradients(entities, relations, triples, heads, relation_rows, tails):
    """The gradient of the score of triple i in its head, relation and tail: row i of each."""
    query = np.empty(query_width(entities.shape[1]), dtype=entities.dtype)
    gradient = np.empty_like(query)
    one = entities.dtype.type(1)
    heads[:] = 0
    relation_rows[:] = 0
    tails[:] = 0
    for i in range(triples.shape[0]):
        h, r, t = triples[i, 0], triples[i, 1], triples[i, 2]
        tail_query(entities[h], relations[r], query)
        gradient[:] = 0
        query_gradient(query, entities[t], one, gradient)
        entity_gradient(query, entities[t], one, tails[i])
        tail_backward(entities[h], relations[r], gradient, heads[i], relation_rows[i])


def _gradients(model: Model, triples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradient of each triple's score in the rows of its head, relation and tail."""
    rows = len(triples), model.entities.shape[1]
    dtype = model.entities.dtype
    parts = (
        np.empty(rows, dtype),
        np.empty((len(triples), model.relations.shape[1]), dtype),
        np.empty(rows, dtype),
    )
    fill = model.family.bind(score_gradients)
    fill(model.entities, model.relations, np.ascontiguousarray(triples, dtype=np.int64), *parts)
    return parts


def influences(model: Model, answer: np.ndarray, facts: np.ndarray) -> np.ndarray:
    """How much each of ``facts`` pulls the rows of ``answer`` the way its score wants: [−3, 3]."""
    head, relation, tail = (part[0] for part in _gradients(model, answer[None]))
    heads, relation_rows, tails = _gradients(model, facts)
    found = np.zeros(len(facts))
    for entity, wanted in ((answer[0], head), (answer[2], tail)):
        pulls = heads * (facts[:, :1] == entity) + tails * (facts[:, 2:] == entity)
        found += _cosines(pulls, wanted)
    same = facts[:, 1] == answer[1]
    found[same] += _cosines(relation_rows[same], relation)
    return found


def _cosines(rows: np.ndarray, row: np.ndarray) -> np.ndarray:
    sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(row)
    return rows @ row / np.maximum(sizes, 1e-12)
