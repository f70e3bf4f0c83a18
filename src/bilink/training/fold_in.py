"""New entities and relations in a finished model: each gets a row from its facts, all else frozen.

A fact (x, r, t) has the score compare(head_query(t, r), x), and (h, r, x) has
compare(tail_query(h, r), x): to the row x, each fact is one fixed query.  The row maximises the
likelihood of the graph under a softmax over β · scores, as far as it depends on x:

- its facts, asked "who stands here?" and "what goes with x?";
- the facts of others, asked "who stands here?", where x is one more wrong answer.  Without them a
  new entity would push itself before everybody else;
- less ‖x − m‖² / 2v, where m is the mean of entities seen in the places where x stands, and v how
  much entities vary.

A new relation gets the row that maximises the same likelihood of its own facts, asked "which tail?"
and "which head?", less its distance to the mean of all relations.

β is found from the model itself.  But for distances, which are not linear in x, the problem is
convex.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from bilink._threads import single_threaded_blas
from bilink.data.graph import COLUMNS, Graph
from bilink.data.index import FactIndex, known_answers
from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.models.scorer import SIDES, Scorer, Side, fill_queries
from bilink.training.margin_kernels import sigmoid, softplus

# Chosen by ComplEx on new entities of the atlas and of FB15k-237, with seeds without figures.
STRENGTH = 0.3  # of the pull to m
OTHERS = 0.03  # weight of the facts of others, which are compared with their answer alone
NEGATIVES = 200  # for each place where x stands: half of them seen there, half any entity
RELATION_FACTS = 500  # of a new relation, at most
ASKED = 500  # facts of others for each place, and as many of any relation and side
STEPS = 100
MEMORY = 4 * 10**9  # bytes that the questions about one entity may take
_SAMPLE = 64  # facts that β is found from

# Placeholders that ``bind`` replaces by a model's kernel functions.
compare: Any = None
entity_gradient: Any = None
query_gradient: Any = None
query_width: Any = None
tail_query: Any = None
head_query: Any = None
tail_backward: Any = None
head_backward: Any = None


def fold_in_gradient(
    row, queries, places, totals, negatives, offsets, asked, answers, weights, beta, gradient
):
    """The loss of the facts at ``row``; its gradient is added to ``gradient``.

    Fact i has queries[i]; the other candidates for the row's place together weigh exp(totals[i]).
    Candidates for the other end are negatives[places[i]], which count exp(offsets) times.  In the
    questions ``asked`` the row should stay below the scores ``answers``; they have ``weights``.
    """
    n_places, count = offsets.shape
    loss = 0.0
    for i in range(asked.shape[0]):
        gap = beta * compare(asked[i], row) - answers[i]
        loss += weights[i] * softplus(gap)
        entity_gradient(asked[i], row, weights[i] * beta * sigmoid(gap), gradient)
    logits = np.empty(count)
    for place in range(n_places):
        top = -np.inf
        for j in range(count):
            logits[j] = offsets[place, j] + beta * compare(negatives[place, j], row)
            top = max(top, logits[j])
        total = 0.0
        for j in range(count):
            logits[j] = np.exp(logits[j] - top) if logits[j] > -np.inf else 0.0
            total += logits[j]
        others = top + np.log(total) if top > -np.inf else top
        share = 0.0
        for i in range(places.shape[0]):
            if places[i] == place:
                score = beta * compare(queries[i], row)
                loss += softplus(totals[i] - score) + softplus(others - score)
                here, there = sigmoid(totals[i] - score), sigmoid(others - score)
                share += there
                entity_gradient(queries[i], row, -beta * (here + there), gradient)
        for j in range(count):
            if logits[j] > 0:
                weight = beta * share * logits[j] / total
                entity_gradient(negatives[place, j], row, weight, gradient)
    return loss


def relation_gradient(row, given, answers, negatives, offsets, is_tail, beta, gradient):
    """The loss of one side's questions about a relation; its gradient is added to ``gradient``.

    Question i asks what goes with given[i]; its answer is answers[i], and negative j counts
    exp(offsets[i, j]) times.
    """
    count, width = negatives.shape
    query, back = np.empty(query_width(width)), np.empty(query_width(width))
    unused = np.empty(width)
    logits = np.empty(count)
    loss = 0.0
    for i in range(given.shape[0]):
        if is_tail:
            tail_query(given[i], row, query)
        else:
            head_query(given[i], row, query)
        top = -np.inf
        for j in range(count):
            logits[j] = offsets[i, j] + beta * compare(query, negatives[j])
            top = max(top, logits[j])
        if top == -np.inf:
            continue
        total = 0.0
        for j in range(count):
            logits[j] = np.exp(logits[j] - top) if logits[j] > -np.inf else 0.0
            total += logits[j]
        gap = top + np.log(total) - beta * compare(query, answers[i])
        loss += softplus(gap)
        share = beta * sigmoid(gap)
        back[:] = 0.0
        query_gradient(query, answers[i], -share, back)
        for j in range(count):
            if logits[j] > 0:
                query_gradient(query, negatives[j], share * logits[j] / total, back)
        if is_tail:
            tail_backward(given[i], row, back, unused, gradient)
        else:
            head_backward(given[i], row, back, unused, gradient)
    return loss


@dataclass(frozen=True, eq=False)
class Frozen:
    """A finished model as new entities meet it: its β, what stands where, and its facts.

    A place is 2r for the heads of relation r, and 2r + 1 for its tails.
    """

    model: Model
    known: FactIndex
    facts: np.ndarray  # of training, by relation
    fact_starts: np.ndarray  # where each relation starts in ``facts``
    beta: float
    variance: float  # of the numbers of entities

    @classmethod
    def of(cls, model: Model, graph: Graph) -> "Frozen":
        """Look at the model and its graph, but not at the test split."""
        known = known_answers(graph, ("train",))
        held_out = graph.valid if len(graph.valid) >= _SAMPLE else graph.train
        sample = np.random.default_rng(0).permutation(len(held_out))[:_SAMPLE]
        facts = graph.train[np.argsort(graph.train[:, 1], kind="stable")]
        starts = np.searchsorted(facts[:, 1], np.arange(len(graph.relations) + 1))
        beta = _sharpness(model.scorer, held_out[sample], known)
        variance = float(model.entities.var(axis=0, dtype=np.float64).mean())
        return cls(model, known, facts, starts, beta, max(variance, 1e-12))

    def with_relations(self, rows: np.ndarray) -> "Frozen":
        """The same with more relations, which have no facts yet."""
        model = self.model
        more = np.vstack([model.relations, rows]).astype(model.relations.dtype)
        added = np.full(len(rows), len(self.facts))
        return replace(
            self,
            model=Model(model.family, model.dim, model.entities, more),
            known=FactIndex(self.facts, len(model.entities), len(more)),
            fact_starts=np.concatenate([self.fact_starts, added]),
        )

    def seen_in(self, place: int) -> np.ndarray:
        """The entities that stand in a place."""
        return self.known.seen(place // 2, SIDES[place % 2])

    def facts_of(self, relation: int) -> np.ndarray:
        """The training facts of a relation."""
        return self.facts[self.fact_starts[relation] : self.fact_starts[relation + 1]]

    def mean_of(self, place: int) -> np.ndarray:
        """The mean of the entities that stand in a place, or of all where none does."""
        seen = self.seen_in(place)
        rows = self.model.entities[seen] if len(seen) else self.model.entities
        return rows.mean(axis=0, dtype=np.float64)

    def queries(self, rows: np.ndarray, relations: np.ndarray, tail: int) -> np.ndarray:
        """What asks for the tail, or else the head, that goes with each row and relation."""
        used, index = np.unique(relations, return_inverse=True)
        out = np.empty((len(rows), self.model.family.query_width(rows.shape[1])))
        fill = self.model.family.bind(fill_queries)
        forms = self.model.relations[used].astype(np.float64)
        fill(rows.astype(np.float64), forms, np.arange(len(rows)), index, not tail, out)
        return out


def fold_in(
    frozen: Frozen, facts: np.ndarray, entities: int = 0, relations: int = 0, *, seed: int = 0
) -> Model:
    """The model with more entities and relations, whose ids in ``facts`` follow those that it has.

    Relations come first, from facts between old entities.  Then entities, one after another, those
    with most facts about old entities first; where new ones have facts with each other, all are
    placed again, now that they have rows.  Last come relations between new entities alone.
    """
    random = np.random.default_rng(seed)
    n, k = len(frozen.model.entities), len(frozen.model.relations)
    facts = np.asarray(facts, dtype=np.int64).reshape(-1, 3)
    with single_threaded_blas():  # the products are too small to share
        ready = np.ones(k + relations, dtype=bool)
        if relations:
            old = facts[(facts[:, [0, 2]] < n).all(axis=1)]
            rows, ready[k:] = _relation_rows(frozen, old, relations, random)
            frozen = frozen.with_relations(rows)
        if entities:
            frozen = _with_entities(frozen, facts[ready[facts[:, 1]]], entities, random)
        if not ready.all():
            before = replace(frozen.model, relations=frozen.model.relations[:k])
            late = facts[~ready[facts[:, 1]]]
            rows, _ = _relation_rows(replace(frozen, model=before), late, relations, random)
            merged = frozen.model.relations.copy()
            merged[~ready] = rows[~ready[k:]]
            frozen = replace(frozen, model=replace(frozen.model, relations=merged))
    return frozen.model


def _with_entities(
    frozen: Frozen, facts: np.ndarray, count: int, random: np.random.Generator
) -> Frozen:
    model, old = frozen.model, len(frozen.model.entities)
    if model.family.is_reciprocal:
        raise ConfigError(
            f"{model.family.title} scores heads and tails by different forms, so that a new entity "
            "cannot be placed in it; train it again with the new facts, or take another model"
        )
    entities = np.vstack([model.entities, np.zeros((count, model.entities.shape[1]))])
    placed = np.arange(old + count) < old
    facts = facts[facts[:, 0] != facts[:, 2]]  # what an entity is to itself is no fixed query
    facts = facts[(facts[:, [0, 2]] >= old).any(axis=1)]
    is_new = facts[:, [0, 2]] >= old
    firm = np.bincount(facts[~is_new.all(axis=1)][:, [0, 2]].ravel(), minlength=old + count)
    order = old + np.argsort(-firm[old:], kind="stable")
    for _ in range(2 if is_new.all(axis=1).any() else 1):
        for e in order:
            entities[e] = _place(frozen, entities, *_facts_of(e, facts, placed), random)
            placed[e] = True
    return replace(frozen, model=replace(model, entities=entities.astype(model.entities.dtype)))


def _relation_rows(
    frozen: Frozen, facts: np.ndarray, count: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of ``count`` new relations, and which of them have facts to be found from."""
    model, old = frozen.model, len(frozen.model.relations)
    mean = model.relations.mean(axis=0, dtype=np.float64)
    variance = max(float(model.relations.var(axis=0, dtype=np.float64).mean()), 1e-12)
    gradient_of = model.family.bind(relation_gradient)
    rows = np.tile(mean, (count, 1))
    for i in range(count):
        own = facts[facts[:, 1] == old + i]
        own = own[random.permutation(len(own))[:RELATION_FACTS]]
        if not len(own):
            continue
        questions = [_relation_questions(frozen, own, tail, random) for tail in (True, False)]

        def loss(row: np.ndarray, asked: list[Any] = questions) -> tuple[float, np.ndarray]:
            gradient = STRENGTH / variance * (row - mean)
            value = float(gradient @ (row - mean)) / 2
            value += sum(gradient_of(row, *side, frozen.beta, gradient) for side in asked)
            return value, gradient

        found = minimize(loss, mean, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
        rows[i] = found.x
    return rows, np.isin(np.arange(old, old + count), facts[:, 1])


def _relation_questions(
    frozen: Frozen, facts: np.ndarray, is_tail: bool, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, bool]:
    """What ``relation_gradient`` asks on one side; half of the negatives are other answers."""
    entities = frozen.model.entities
    given, answer = (facts[:, 0], facts[:, 2]) if is_tail else (facts[:, 2], facts[:, 0])
    each = NEGATIVES // 2
    pool = np.unique(answer)
    near = pool if len(pool) <= each else random.choice(pool, each, replace=False)
    ids = np.concatenate([near, random.integers(0, len(entities), each)])
    times = [len(pool) / len(near), len(entities) / each]
    stand_for = np.log(np.repeat(times, [len(near), each]))
    stand_for[len(near) :][np.isin(ids[len(near) :], pool)] = -np.inf
    offsets = np.tile(stand_for, (len(facts), 1))
    n = len(entities)  # no answer of a question is a negative of it
    taken = np.isin(given[:, None] * n + ids, given * n + answer)
    offsets[taken] = -np.inf
    rows = (entities[which].astype(np.float64) for which in (given, answer, ids))
    return *rows, offsets, is_tail


def _facts_of(
    entity: int, facts: np.ndarray, placed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The other ends, relations and own positions (1 for tail) of the facts that can be used."""
    at_head, at_tail = facts[facts[:, 0] == entity], facts[facts[:, 2] == entity]
    others = np.concatenate([at_head[:, 2], at_tail[:, 0]])
    relations = np.concatenate([at_head[:, 1], at_tail[:, 1]])
    tails = np.repeat([0, 1], [len(at_head), len(at_tail)])
    if placed[others].any():
        usable = placed[others]
        return others[usable], relations[usable], tails[usable]
    return others[:0], relations, tails  # nothing but where it stands


def _place(
    frozen: Frozen,
    entities: np.ndarray,
    others: np.ndarray,
    relations: np.ndarray,
    tails: np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """The row of an entity with these facts."""
    kinds, index = np.unique(2 * relations + tails, return_inverse=True)
    if not len(kinds):
        return frozen.model.entities.mean(axis=0)
    mean = np.mean([frozen.mean_of(kind) for kind in kinds.tolist()], axis=0)
    if not len(others):
        return mean
    _check_memory(frozen.model, len(kinds), len(others))
    own, totals = _own_questions(frozen, entities[others], others, relations, tails)
    negatives, offsets = _negatives(frozen, kinds.tolist(), index, others, random)
    asked = _questions_of_others(frozen, kinds.tolist(), random)
    gradient_of = frozen.model.family.bind(fold_in_gradient)
    precision = STRENGTH / frozen.variance

    def loss(row: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = precision * (row - mean)
        facts = gradient_of(
            row, own, index, totals, negatives, offsets, *asked, frozen.beta, gradient
        )
        return facts + precision / 2 * float((row - mean) @ (row - mean)), gradient

    return minimize(loss, mean, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x


def _check_memory(model: Model, places: int, facts: int) -> None:
    """Refuse a model whose queries are too wide to hold those of all places of an entity."""
    width = model.family.query_width(model.entities.shape[1])
    needed = 8 * width * (places * (NEGATIVES + ASKED) + 2 * ASKED + facts)
    if needed > MEMORY:
        raise ConfigError(
            f"a query of {model.family.title}, dim {model.dim}, has {width:,} numbers, so that "
            f"placing an entity that stands in {places:,} places would take {needed / 1e9:,.1f} "
            "GB; train it again with the new facts, or take another model"
        )


def _own_questions(
    frozen: Frozen, rows: np.ndarray, others: np.ndarray, relations: np.ndarray, tails: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The query of each fact, and the logarithm of what its negatives for the row's place weigh."""
    width = frozen.model.family.query_width(rows.shape[1])
    own, totals = np.empty((len(others), width)), np.full(len(others), -np.inf)
    for tail, side in enumerate(SIDES):
        here = tails == tail
        own[here] = frozen.queries(rows[here], relations[here], tail)
        asked = np.flatnonzero(here & (others < len(frozen.model.entities)))
        questions = others[asked], relations[asked]
        for part, scores in _other_scores(frozen.model.scorer, side, *questions, frozen.known):
            totals[asked[part]] = _log_sum(scores * scores.dtype.type(frozen.beta))
    return own, totals


def _negatives(
    frozen: Frozen,
    kinds: list[int],
    index: np.ndarray,
    others: np.ndarray,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """For each place, queries of negatives for the other end, and the logarithm of their number.

    Half are drawn from entities seen there, half from the rest, and each stands for many.
    """
    n, width = frozen.model.entities.shape
    width = frozen.model.family.query_width(width)
    each = NEGATIVES // 2
    negatives = np.zeros((len(kinds), 2 * each, width))
    offsets = np.full((len(kinds), 2 * each), -np.inf)
    for k, kind in enumerate(kinds):
        relation, tail = divmod(kind, 2)
        pool = frozen.seen_in(kind ^ 1)
        near = pool if len(pool) <= each else pool[random.integers(0, len(pool), each)]
        ids = np.concatenate([near, random.integers(0, n, each)])
        stand_for = np.log(np.repeat([len(pool) / max(1, len(near)), n / each], [len(near), each]))
        stand_for[len(near) :][np.isin(ids[len(near) :], pool)] = -np.inf
        stand_for[np.isin(ids, others[index == k])] = -np.inf
        same = np.full(len(ids), relation)
        negatives[k, : len(ids)] = frozen.queries(frozen.model.entities[ids], same, tail)
        offsets[k, : len(ids)] = stand_for
    return negatives, offsets


def _questions_of_others(
    frozen: Frozen, kinds: list[int], random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries of facts of others in the same places and in any; the scores to beat; weights."""
    groups = [(frozen.facts, 0), (frozen.facts, 1)]
    groups += [(frozen.facts_of(kind // 2), kind % 2) for kind in kinds]
    queries, answers, weights = [], [], []
    for facts, tail in groups:
        if len(facts):
            drawn = facts if len(facts) <= ASKED else facts[random.integers(0, len(facts), ASKED)]
            given = frozen.model.entities[drawn[:, 0 if tail else 2]]
            queries.append(frozen.queries(given, drawn[:, 1], tail))
            answers.append(frozen.beta * frozen.model.score(drawn).astype(np.float64))
            weights.append(np.full(len(drawn), OTHERS * len(facts) / len(drawn)))
    return np.concatenate(queries), np.concatenate(answers), np.concatenate(weights)


def _sharpness(scorer: Scorer, facts: np.ndarray, known: FactIndex) -> float:
    """The β for which a softmax over β · scores makes the facts most probable."""
    right, gaps = scorer.score(facts)[:, None], []
    for side in SIDES:
        questions = facts[:, COLUMNS[side][0]], facts[:, 1]
        for part, scores in _other_scores(scorer, side, *questions, known):
            gaps.append(scores - right[part])
    gaps_ = np.concatenate(gaps)

    def loss(log_beta: float) -> float:
        return float(np.logaddexp(0, _log_sum(gaps_ * gaps_.dtype.type(np.exp(log_beta)))).mean())

    found = minimize_scalar(loss, bounds=(-6, 6), method="bounded", options={"xatol": 0.1})
    return float(np.exp(found.x))


def _other_scores(
    scorer: Scorer, side: Side, given: np.ndarray, relations: np.ndarray, known: FactIndex
) -> Iterator[tuple[slice, np.ndarray]]:
    """The scores of all candidates of each question, in blocks; known answers have −∞."""
    start, stop = known[side].spans(given, relations)
    for part, scores in scorer.blocks(side, given, relations):
        for row, i, j in zip(scores, start[part], stop[part], strict=True):
            row[known[side].answers[i:j]] = -np.inf
        yield part, scores


def _log_sum(rows: np.ndarray) -> np.ndarray:
    """The logarithm of each row's sum of exponentials, −∞ for a row of −∞; spoils ``rows``."""
    top = rows.max(axis=1, initial=-1e30)
    rows -= top[:, None]
    np.exp(rows, out=rows)
    with np.errstate(divide="ignore"):
        return top + np.log(rows.sum(axis=1, dtype=np.float64))
