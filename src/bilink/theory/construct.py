"""From a graph to a model that scores every fact above every non-fact, with a certificate.

The factors of each relation come from ``rounding``, the model from ``consistent_models``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bilink.data.graph import SPLITS, Graph
from bilink.models.hole import export, restore
from bilink.models.model import Model
from bilink.theory.consistent_models import check_family, consistent_model
from bilink.theory.factors import Factors
from bilink.theory.relations import RelationFacts, each_of, facts_of, twins
from bilink.theory.rounding.certificates import model_margin
from bilink.theory.rounding.rank import rounding_rank


@dataclass(frozen=True, eq=False)
class Construction:
    """A consistent model, and by how much rounding is overcome in it."""

    model: Model
    ranks: tuple[int, ...]  # of the factors of each relation
    margin_over_error: float  # the least over all pairs and relations

    @property
    def certified(self) -> bool:
        """Whether all facts score above all non-facts in float64, whatever the order of sums."""
        return self.margin_over_error > 1

    def to_dict(self) -> dict[str, Any]:
        """As ``bilink theory construct --json`` prints it."""
        return {
            "model": self.model.family.name,
            "size": self.model.dim,
            "certified": self.certified,
            "margin_over_error": self.margin_over_error,
            "sum_of_ranks": sum(self.ranks),
        }


def construct(
    graph: Graph,
    name: str,
    *,
    splits: Sequence[str] = SPLITS,
    effort: float = 1.0,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Construction:
    """A ``name`` model that is consistent with the triples of ``splits``, checked pair by pair.

    ``progress`` is called with the number of facts whose relation is just done.
    """
    name = check_family(name)
    relations = facts_of(graph, splits)
    factors = relation_factors(relations, effort=effort, threads=threads, progress=progress)
    return certify(consistent_model(factors, name), factors, relations)


def certify(
    model: Model, factors: Sequence[Factors], relations: Sequence[RelationFacts]
) -> Construction:
    """Compare all facts with all non-facts, for the model as it is and as a file will hold it."""
    stored = _stored(model)
    margin = min(
        model_margin(model, stored, k, facts.heads, facts.tails)
        for k, facts in enumerate(relations)
    )
    return Construction(model, tuple(f.left.shape[1] for f in factors), margin)


def relation_factors(
    relations: Sequence[RelationFacts],
    *,
    effort: float = 1.0,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> list[Factors]:
    """Certified factors of every relation; twins have the same arrays."""
    first = twins(relations)
    own = [k for k, (twin, _) in enumerate(first) if twin == k]

    def find(k: int) -> Factors:
        facts = relations[k]
        found = rounding_rank(facts.heads, facts.tails, facts.n, effort=effort, complete=True)
        if progress:
            progress(len(facts))
        assert found.factors is not None  # a coordinate for each row is always possible
        return found.factors

    found = each_of(find, own, relations, threads)
    return [
        Factors(found[twin].right, found[twin].left, found[twin].threshold)
        if turned
        else found[twin]
        for twin, turned in first
    ]


def _stored(model: Model) -> Model:
    """The model as it is read back from a file: HolE's files hold other coordinates."""
    if model.family.name != "hole":
        return model
    return Model(model.family, model.dim, *restore(*export(model.entities, model.relations)))
