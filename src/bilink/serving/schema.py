"""The shapes of requests and answers, for the OpenAPI schema."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from bilink.queries.doubts import Suggestion
from bilink.queries.explain import Member
from bilink.queries.fitting import LeftOut
from bilink.runs.decisions import Decided

MAX_K = 1000
Text = Annotated[str, Field(min_length=1, max_length=500)]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Error(_Answer):
    """What went wrong, in a sentence, and for some errors a code."""

    error: str
    code: str | None = None


class Named(_Answer):
    """An entity or a relation."""

    name: str
    label: str  # to show to people; need not be unique
    facts: int


class Example(_Answer):
    """A question worth a try."""

    head: Named
    relation: Named


class Info(_Answer):
    """The run and its graph."""

    graph: str
    run: str
    members: list[str]
    entities: int
    relations: int
    facts: int
    calibrated: bool
    audited: bool
    examples: list[Example]
    version: str
    review: bool  # whether decisions are kept
    decisions: dict[str, int] | None  # how many of each kind


class Matches(_Answer):
    """What was perhaps meant."""

    matches: list[Named]


class Triple(_Answer):
    """Names, and labels to show for them."""

    head: str
    relation: str
    tail: str
    head_label: str
    relation_label: str
    tail_label: str


class AnswerRow(Triple):
    """One answer to a question."""

    label: str
    score: float | None
    probability: float | None
    rank: int
    known: bool
    decision: Decided | None  # what a person decided about it


class Answers(_Answer):
    """The answers to a question, best first."""

    question: str
    answers: list[AnswerRow]
    missing: float | None  # the share of facts thought missing, which probabilities depend on
    left_out: list[LeftOut]  # candidates that make no sense, without probabilities


class Triples(BaseModel):
    """Triples to score, as (head, relation, tail)."""

    triples: list[tuple[Text, Text, Text]] = Field(max_length=MAX_K)


class ScoreRow(Triple):
    """The score of one triple."""

    score: float | None
    probability: float | None
    known: bool


class Scores(_Answer):
    """The score of each triple, in their order."""

    scores: list[ScoreRow]
    missing: float | None  # the share of facts thought missing; None without probabilities


class Supporting(_Answer):
    """A training fact, as labels, and its share of the support or its likeness."""

    fact: tuple[str, str, str]
    value: float | None


class Rule(_Answer):
    """A rule in words, and facts for which its body holds."""

    sentence: str
    confidence: float
    evidence: list[tuple[str, str, str]]


class OtherAnswer(_Answer):
    """Another answer, which a rule names with more confidence."""

    fact: tuple[str, str, str]
    rule: Rule


class Explanation(Triple):
    """What speaks for a triple, approximately."""

    score: float | None
    probability: float | None  # None for a training fact, and where none were learnt
    missing: float | None  # the share of facts thought missing, which it depends on
    ranks: dict[str, float]  # among all entities in that place
    known: str | None  # the split that holds it
    members: list[Member]  # of an ensemble
    rules: list[Rule]
    against: list[OtherAnswer]
    support: list[Supporting]
    analogies: list[Supporting]
    paths: list[list[tuple[str, str, str]]]
    note: str


class Doubt(Triple):
    """A fact of the graph that looks wrong."""

    probability: float | None
    score: float | None
    suggestion: Suggestion | None  # a more plausible entity in place of one end
    side: str | None  # which end
    decision: Decided | None = None  # what a person decided about it


class Group(_Answer):
    """Facts of an entity with one relation; ``side`` is where the other entities stand."""

    relation: Named
    side: str
    count: int
    entities: list[Named]


class Entity(Named):
    """An entity and its facts."""

    groups: list[Group]
    doubts: list[Doubt] | None  # None: nobody looked for them


class Neighbour(Named):
    """An entity and how alike its vector is."""

    similarity: float | None


class Neighbours(_Answer):
    """The most similar entities."""

    neighbours: list[Neighbour]


class Edge(_Answer):
    """A fact between two nodes, which are places in the list of nodes."""

    head: int
    relation: int
    tail: int


class Neighbourhood(_Answer):
    """A small graph around its first node."""

    nodes: list[Named]
    edges: list[Edge]
    relations: dict[str, Named]


class Related(Named):
    """A relation with nearly the same facts, or the same the other way round."""

    kind: str
    shared: int


class Theory(_Answer):
    """What models of any size can and cannot make of a relation."""

    facts: int
    symmetric: bool
    lost_by_distmult: int
    lost_by_transe: int
    rounding_rank: tuple[int, int] | None  # bounds, where ``bilink theory describe`` found them


class Reliability(_Answer):
    """How often what has a probability is true, in groups of like probability."""

    error: float | None  # expected calibration error
    said: list[float]
    true: list[float]
    count: list[int]


class Weights(_Answer):
    """The share of each member in the scores of a relation."""

    relation: str
    head: list[float]
    tail: list[float]


class Relation(Named):
    """A relation in numbers."""

    train: int
    valid: int
    test: int
    heads: int
    tails: int
    tails_per_head: float | None
    heads_per_tail: float | None
    category: str | None
    symmetry: float | None
    reflexivity: float | None
    related: list[Related]
    theory: Theory
    calibration: Reliability | None
    weights: Weights | None


class AllWeights(_Answer):
    """The shares of all members; without members where the run is no ensemble."""

    members: list[str]
    relations: list[Weights]


class Audit(_Answer):
    """Facts that look wrong; ``command`` looks for them."""

    audited: bool
    command: str
    doubts: list[Doubt]


class MapOfEntities(_Answer):
    """Points in the plane, by columns; ``position`` is 1 for heads, 2 for tails, 3 for both."""

    of: int
    names: list[str]
    labels: list[str]
    facts: list[int]
    x: list[float]
    y: list[float]
    cluster: list[int]
    position: list[int] | None
