"""The formulas of R-GCN (Schlichtkrull et al., 2018) on tensors: the one place that needs torch.

A layer adds up what an entity hears from its neighbours, and what it was itself:

    h'_i = σ( Σ_r Σ_{j ∈ N_r(i)} W_r h_j / c_{i,r} + W_0 h_i )

where relations and their inverses are different r.  Vectors are rows, so that the files hold W_rᵀ.
The matrices of relations share a basis, W_r = Σ_b a_{rb} V_b, or are block-diagonal.  A first layer
without input sees each entity as a unit vector: the products with V_b and W_0 are then their rows.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Messages:
    """Who hears from whom: entity ``i`` from edges ``start[i]`` to ``start[i + 1]``."""

    start: Tensor  # int64, one more than there are entities
    source: Tensor  # int64: the entity at the other end
    relation: Tensor  # int64: inverse relations follow the others
    weight: Tensor  # 1 / c

    @classmethod
    def of(
        cls, start: np.ndarray, source: np.ndarray, relation: np.ndarray, weight: np.ndarray
    ) -> "Messages":
        """From arrays of these types, whose memory is shared."""
        return cls(*map(torch.from_numpy, (start, source, relation, weight)))

    def sums(self, table: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
        """For each entity, the weighed sum of the ``rows`` of a table that its edges name."""
        return functional.embedding_bag(
            rows,
            table,
            self.start,
            mode="sum",
            per_sample_weights=weights,
            include_last_offset=True,
        )


def basis_layer(
    messages: Messages, given: Tensor | None, params: Parameters, kept: Tensor | None
) -> Tensor:
    """W_r = Σ_b a_{rb} V_b: one sum over all edges for each matrix of the basis.

    ``kept`` are factors on what an entity tells itself: its dropout.
    """
    total = _of_itself(given, params["self"], kept)
    shares = params["coefficients"][messages.relation] * messages.weight[:, None]
    for matrix, share in zip(params["bases"], shares.unbind(1), strict=True):
        table = matrix if given is None else given @ matrix
        total = total + messages.sums(table, messages.source, share.contiguous())
    return total


def block_layer(
    messages: Messages, given: Tensor, params: Parameters, kept: Tensor | None
) -> Tensor:
    """W_r is a diagonal of square blocks: the products are taken relation by relation."""
    blocks = params["blocks"]  # (relations, blocks, size, size)
    order = torch.argsort(messages.relation, stable=True)
    counts = torch.bincount(messages.relation, minlength=len(blocks)).tolist()
    rows = functional.embedding(messages.source[order], given)
    parts = rows.view(len(rows), *blocks.shape[1:3]).split(counts)
    told = [
        torch.einsum("ebs,bso->ebo", part, own) for part, own in zip(parts, blocks, strict=True)
    ]
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order))
    sums = messages.sums(torch.cat(told).view(len(rows), -1), places, messages.weight)
    return _of_itself(given, params["self"], kept) + sums


def _of_itself(given: Tensor | None, matrix: Tensor, kept: Tensor | None) -> Tensor:
    itself = matrix if given is None else given @ matrix
    return itself if kept is None else itself * kept


def encode(
    messages: Messages,
    given: Tensor | None,
    layers: list[dict[str, Tensor]],
    kept: list[Tensor] | None = None,
) -> Tensor:
    """The rows of all entities; ``given`` is the input of the first layer, if it has one.

    σ is ReLU between layers.  The last one has none, as in the authors' code, so that entries of
    both signs reach the decoder.
    """
    for i, params in enumerate(layers):
        own = kept[i] if kept is not None else None
        if "blocks" in params:
            assert given is not None
            given = block_layer(messages, given, params, own)
        else:
            given = basis_layer(messages, given, params, own)
        if i + 1 < len(layers):
            given = functional.relu(given)
    assert given is not None
    return given


@dataclass(frozen=True, eq=False)
class Sample:
    """Some facts, and entities that replace the head or the tail of each."""

    facts: Tensor  # (facts, 3)
    negatives: Tensor  # (facts, negatives): entities
    is_tail: Tensor  # bool: whether they replace the tail

    @classmethod
    def of(cls, facts: np.ndarray, negatives: np.ndarray, is_tail: np.ndarray) -> "Sample":
        """From arrays, whose memory is shared."""
        return cls(*map(torch.from_numpy, (facts, negatives, is_tail)))

    def parts(self, size: int) -> "list[Sample]":
        """The same in parts of at most so many facts."""
        cut = (x.split(size) for x in (self.facts, self.negatives, self.is_tail))
        return [Sample(*part) for part in zip(*cut, strict=True)]


def decoder_loss(
    entities: Tensor, relations: Tensor, sample: Sample, penalties: tuple[float, float]
) -> tuple[Tensor, int]:
    """The cross-entropy of DistMult, summed over facts, and how many negatives beat their fact.

    The negatives of a fact weigh as much as the fact.  ``penalties`` are on the mean squares of the
    entries of its entities and of its relation.
    """
    heads, names, tails = sample.facts.unbind(1)
    head, relation, tail = (
        functional.embedding(i, rows)
        for i, rows in ((heads, entities), (names, relations), (tails, entities))
    )
    query = relation * torch.where(sample.is_tail[:, None], head, tail)
    answer = torch.where(sample.is_tail[:, None], tail, head)
    scores = (query * answer).sum(1)
    wrong = (functional.embedding(sample.negatives, entities) @ query[:, :, None]).squeeze(2)
    loss = functional.softplus(-scores).sum() / 2 + functional.softplus(wrong).mean(1).sum() / 2
    entity, other = penalties
    if entity:
        loss = loss + entity * (head.square().mean(1) + tail.square().mean(1)).sum()
    if other:
        loss = loss + other * relation.square().mean(1).sum()
    return loss, int((wrong >= scores[:, None]).sum())


class Encoder:
    """The parameters of a graph convolution as tensors that share the memory of arrays."""

    def __init__(self, layers: list[dict[str, np.ndarray]], given: np.ndarray | None):
        self._layers = [{name: _leaf(array) for name, array in own.items()} for own in layers]
        self._given = None if given is None else _leaf(given)

    def rows(self, messages: Messages) -> np.ndarray:
        """The rows of all entities, without dropout."""
        with torch.no_grad():
            return encode(messages, self._given, self._layers).numpy()

    def gradients(
        self,
        messages: Messages,
        kept: list[np.ndarray] | None,
        relations: np.ndarray,
        sample: Sample,
        penalties: tuple[float, float],
        part: int,
    ) -> tuple[float, int, list[np.ndarray]]:
        """The mean loss, how many negatives beat their fact, and all gradients.

        Gradients are those of the layers in their order, of the input where there is one, and of
        the relations.  The decoder sees ``part`` facts at a time, which bounds its memory.
        """
        masks = None if kept is None else [torch.from_numpy(mask) for mask in kept]
        encoded = encode(messages, self._given, self._layers, masks)
        entities, decoder = encoded.detach().requires_grad_(), _leaf(relations)
        total, beaten = 0.0, 0
        for some in sample.parts(part):
            loss, more = decoder_loss(entities, decoder, some, penalties)
            (loss / len(sample.facts)).backward()
            total, beaten = total + loss.item(), beaten + more
        leaves = [leaf for own in self._layers for leaf in own.values()]
        leaves += [] if self._given is None else [self._given]
        found = torch.autograd.grad(encoded, leaves, entities.grad)
        assert decoder.grad is not None
        return total / len(sample.facts), beaten, [g.numpy() for g in (*found, decoder.grad)]


def _leaf(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array).requires_grad_()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch takes so many threads inside of the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
