"""The shapes of requests and answers, for the OpenAPI schema."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from bilink.queries.doubts import Suggestion
from bilink.queries.explain import Member
from bilink.queries.fitting import LeftOut
from bilink.runs.decisions import Decided

MAX_K = 1000
MAX_OFFSET = 10_000
Typed = Annotated[str, Field(max_length=500)]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Suggested(_Answer):
    """A name that was perhaps meant."""

    name: str
    label: str


class Error(_Answer):
    """What went wrong, in a sentence, and for some errors a code."""

    error: str
    code: str = Field(
        description="For programs: unknown-entity, unknown-relation, unknown-run, ambiguous, "
        "not-found, invalid, not-finite, busy, slow, unauthorized, forbidden, too-large, …"
    )
    suggestions: list[Suggested] = Field([], description="Close names, where one is unknown.")


class Named(_Answer):
    """An entity or a relation."""

    name: str
    label: str  # to show to people; need not be unique
    facts: int


class Example(_Answer):
    """A question worth a try."""

    head: Named
    relation: Named


class RunRow(_Answer):
    """One of the runs of the server."""

    id: str  # what the parameter ``run`` takes
    name: str
    run: str
    entities: int
    relations: int
    facts: int
    calibrated: bool
    audited: bool


class Info(_Answer):
    """The run and its graph, and which other runs there are."""

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
    runs: list[RunRow]
    review: bool  # whether decisions may be made
    decisions: dict[str, int] | None  # how many there are of each kind


class Matches(_Answer):
    """What was perhaps meant."""

    matches: list[Named]
    offset: int
    more: bool  # whether there is a next page


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
    offset: int
    more: bool  # whether there is a next page


class Question(BaseModel):
    """A question of a batch: two of head, relation and tail, at least one of them an entity."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"head": "Chile", "relation": "official language"}]}
    )

    head: Typed | None = None
    relation: Typed | None = None
    tail: Typed | None = None
    k: int = Field(10, ge=1, le=MAX_K, description="How many answers.")
    offset: int = Field(0, ge=0, le=MAX_OFFSET, description="How many answers to pass over.")
    new: bool = Field(False, description="Leave out facts that the graph holds.")
    seen: bool = Field(False, description="Only entities seen in that position in training.")
    any_entity: bool = Field(False, description="Also candidates that make no sense.")
    missing: float | None = Field(
        None,
        description="The share of all facts that is thought missing, for probabilities.",
        json_schema_extra={"exclusiveMinimum": 0, "exclusiveMaximum": 1},
    )


class Questions(BaseModel):
    """Up to 1,000 questions."""

    questions: list[Question] = Field(max_length=MAX_K)
    run: str | None = Field(None, max_length=20, description="Which run, as info lists them.")


class Result(_Answer):
    """The answers to a question of a batch, or what is wrong with it."""

    answers: Answers | None
    error: Error | None


class Results(_Answer):
    """One result for each question, in their order."""

    results: list[Result]


class Triples(BaseModel):
    """Triples to score, as (head, relation, tail)."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"triples": [["Chile", "official language", "Spanish"]]}]}
    )

    triples: list[tuple[Typed, Typed, Typed]] = Field(max_length=MAX_K)


class ScoreRow(Triple):
    """The score of one triple."""

    score: float | None
    probability: float | None
    known: bool
    decision: Decided | None  # what a person decided about it


class NoScore(_Answer):
    """Why a triple has no score."""

    error: Error


class Scores(_Answer):
    """The score of each triple, or what is wrong with it, in their order."""

    scores: list[ScoreRow | NoScore]
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
    decision: Decided | None  # what a person decided about it


class Doubt(Triple):
    """A fact of the graph that looks wrong."""

    probability: float | None
    score: float | None
    suggestion: Suggestion | None  # a more plausible entity in place of one end
    side: str | None  # which end
    decision: Decided | None  # what a person decided about it


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


class Facts(_Answer):
    """A page of the entities that an entity has facts with, for one relation and direction."""

    entities: list[Named]
    count: int  # on all pages
    offset: int
    more: bool  # whether there is a next page


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
    theory: Theory | None
    calibration: Reliability | None
    weights: Weights | None
    pending: bool  # whether something is still computed: ask again


class AllWeights(_Answer):
    """The shares of all members; without members where the run is no ensemble."""

    members: list[str]
    relations: list[Weights]


class Audit(_Answer):
    """Facts that look wrong; ``command`` looks for them."""

    audited: bool
    command: str
    doubts: list[Doubt]
    count: int  # on all pages
    offset: int
    more: bool  # whether there is a next page


class ComparedAnswer(_Answer):
    """What one run says of a triple; the rank is missing where it is far behind."""

    rank: int | None
    probability: float | None
    score: float | None


class ComparedRow(Triple):
    """A triple, and what each run says of it, by its id; None where it does not know a name."""

    known: bool
    decision: Decided | None  # what a person decided about it
    answers: dict[str, ComparedAnswer | None]
    disagreement: float


class Comparison(_Answer):
    """The best answers of all runs, those first on which they disagree most."""

    runs: list[str]
    rows: list[ComparedRow]
    note: str | None  # where the runs have different graphs


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
