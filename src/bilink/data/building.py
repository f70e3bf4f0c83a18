"""From tables of names to a Graph: numbering, splitting, and the checks of every graph."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from bilink._text import counted, warn
from bilink.data.files import NONE, CodedTable, TripleTable
from bilink.data.graph import FRACTIONS, SPLITS, Graph, distinct, position, triple_keys
from bilink.data.index import known_answers
from bilink.data.vocabulary import Vocabulary
from bilink.errors import ConfigError, DataError

Labels = Mapping[str, str]


def build_graph(
    tables: Sequence[TripleTable | CodedTable | None],
    *,
    name: str,
    entity_labels: Labels | None = None,
    relation_labels: Labels | None = None,
    seed: int = 0,
    fractions: tuple[float, float, float] = FRACTIONS,
) -> Graph:
    """A graph of the tables train, valid and test; a single table is split by ``seed``.

    Ids count in the order of first appearance: train, valid, test, the head before the tail; names
    that only false triples mention come last.
    """
    single = len(tables) == 1
    given = [TripleTable(NONE) if table is None else table for table in tables]
    true, false = ([table.labelled(label) for table in given] for label in (1, -1))
    if set_aside := len(false[0]):
        n = counted(set_aside, "triple")
        warn(f"{name}: set aside {n} labelled -1; only true ones are used for training")
    if not any(map(len, true)):
        raise DataError(f"{name}: there are no triples")
    parts, entities, relations = _encode([*true, *false[1:]])
    sizes = len(entities), len(relations)
    check_size(*sizes, name)
    held_out = SPLITS[1:]
    titles = [name] if single else [*SPLITS, *(f"{split}, labelled -1" for split in held_out)]
    parts = [
        _without_repetitions(part, *sizes, title) for part, title in zip(parts, titles, strict=True)
    ]
    if single:
        parts = list(split_triples(parts[0], *sizes, fractions, seed))
    if not len(parts[0]):
        raise DataError(f"{name}: the train split has no triples")
    parts, entities, relations = _renumber(parts, entities, relations)
    graph = Graph(
        name,
        Vocabulary("entity", tuple(entities), _only(entities, entity_labels)),
        Vocabulary("relation", tuple(relations), _only(relations, relation_labels)),
        train=parts[0],
        valid=parts[1],
        test=parts[2],
        negatives=dict(zip(held_out, parts[3:], strict=False)),  # a single file has none
    )
    if not single:
        _warn_of_splits(graph)
    _warn_of_swapped_columns(graph)
    return graph


def _encode(
    parts: Sequence[pl.DataFrame | CodedTable],
) -> tuple[list[np.ndarray], list[str], list[str]]:
    """Integer triples, and the names of entities and relations in any order."""
    if any(isinstance(part, CodedTable) for part in parts):
        coded = [part if isinstance(part, CodedTable) else _coded([part]) for part in parts]
        entities, of_entity = _merged([table.entities for table in coded])
        relations, of_relation = _merged([table.relations for table in coded])
        maps = zip(coded, of_entity, of_relation, strict=True)
        triples = [_mapped(table.triples, e, r) for table, e, r in maps]
        return triples, entities, relations
    frames = [part for part in parts if isinstance(part, pl.DataFrame)]
    together = _coded(frames)
    bounds = np.cumsum([len(frame) for frame in frames])[:-1]
    return np.split(together.triples, bounds), together.entities, together.relations


def _coded(frames: Sequence[pl.DataFrame]) -> CodedTable:
    """The triples of some tables of names, one after the other."""
    entities = pl.concat([f[c] for f in frames for c in ("head", "tail")]).unique()
    relations = pl.concat([f["relation"] for f in frames]).unique()
    entity, relation = pl.Enum(entities), pl.Enum(relations)
    types = {"head": entity, "relation": relation, "tail": entity}

    def encode(frame: pl.DataFrame) -> np.ndarray:
        columns = (frame[c].cast(kind).to_physical().to_numpy() for c, kind in types.items())
        return np.column_stack([column.astype(np.int32) for column in columns])

    triples = np.concatenate([encode(frame) for frame in frames])
    return CodedTable(triples, entities.to_list(), relations.to_list())


def _merged(lists: Sequence[list[str]]) -> tuple[list[str], list[np.ndarray | None]]:
    """The names of several lists, each once, and the place of each list's names among them.

    The longest list is the start of all names, and keeps its numbers: it has no places (None).
    """
    longest = max(range(len(lists)), key=lambda i: len(lists[i]))
    names = list(lists[longest])
    others = (name for i, some in enumerate(lists) if i != longest for name in some)
    places = dict.fromkeys(others, -1)
    for i, name in enumerate(names):
        if name in places:
            places[name] = i
    for name, place in places.items():
        if place < 0:
            places[name] = len(names)
            names.append(name)
    found: list[np.ndarray | None] = [None] * len(lists)
    for i, some in enumerate(lists):
        if i != longest:
            found[i] = np.array([places[name] for name in some], dtype=np.int32)
    return names, found


def _mapped(
    triples: np.ndarray, entities: np.ndarray | None, relations: np.ndarray | None
) -> np.ndarray:
    """Triples with other numbers; None for the numbers that they have."""
    if entities is None and relations is None:
        return triples
    columns = [
        triples[:, i] if new is None else new[triples[:, i]]
        for i, new in enumerate((entities, relations, entities))
    ]
    return np.column_stack(columns)


def _renumber(
    parts: list[np.ndarray], entities: list[str], relations: list[str]
) -> tuple[list[np.ndarray], list[str], list[str]]:
    """Ids in the order of first appearance."""
    triples = np.concatenate(parts)
    tables: list[np.ndarray | None] = []
    found: list[list[str]] = []
    for columns, names in (([0, 2], entities), ([1], relations)):
        order = np.argsort(first_places(triples[:, columns].ravel(), len(names)))
        numbers = np.arange(len(order), dtype=np.int32)
        if (order == numbers).all():  # as they are
            tables.append(None)
            found.append(names)
            continue
        new = np.empty(len(order), dtype=np.int32)
        new[order] = numbers
        tables.append(new)
        found.append([names[i] for i in order.tolist()])
    del triples
    new_entity, new_relation = tables
    return [_mapped(part, new_entity, new_relation) for part in parts], found[0], found[1]


def check_size(n_entities: int, n_relations: int, name: str) -> None:
    """Complain about a graph that is too small to rank, or too large for its keys."""
    if n_entities < 2:
        raise DataError(f"{name}: there is only one entity, so there is nothing to rank")
    # A triple is packed into one signed 64-bit key in many places.
    if n_entities * n_entities * n_relations >= 2**63 or n_entities >= 2**31:
        raise DataError(
            f"{name}: {n_entities:,} entities and {n_relations:,} relations are too many: "
            "entities² · relations must stay below 2^63"
        )


def _without_repetitions(
    triples: np.ndarray, n_entities: int, n_relations: int, where: str
) -> np.ndarray:
    """``triples`` without repetitions, in the order of first appearance."""
    keys = triple_keys(triples, n_entities, n_relations)
    repeated = len(keys) - len(distinct(keys))
    if not repeated:
        return triples
    warn(f"{where}: dropped {counted(repeated, 'repeated triple')}")
    return triples[np.sort(np.unique(keys, return_index=True)[1])]


def _only(names: Sequence[str], labels: Labels | None) -> dict[str, str]:
    if not labels:
        return {}
    return {name: labels[name] for name in names if name in labels}


def _warn_of_splits(graph: Graph) -> None:
    """Say what is odd about given splits; a benchmark is never changed silently."""
    for split in ("valid", "test"):
        if not len(graph.split(split)):
            warn(f"{graph.name}: there is no {split} split; `bilink data split` can make one")
    if shared := _shared(graph):
        warn(
            f"{graph.name}: {counted(shared, 'triple stands', 'triples stand')} in more than one "
            "split and were left there, which flatters any model; see `bilink data describe`"
        )
    false = 0
    if graph.negatives:
        index = known_answers(graph, SPLITS)
        false = sum(int(index.holds(triples).sum()) for triples in graph.negatives.values())
    if false:
        warn(
            f"{graph.name}: {counted(false, 'triple is', 'triples are')} labelled -1 but true in "
            "some split, and were left so"
        )
    unseen = len(graph.unseen_entities)
    new_relations = len(graph.relations) - _used(graph.train[:, 1], len(graph.relations))
    for n, noun, plural in ((unseen, "entity", "entities"), (new_relations, "relation", None)):
        if n:
            warn(
                f"{graph.name}: {counted(n, noun, plural)} only in valid or test, never in train; "
                "kept, but nothing can be learnt of them"
            )


def _shared(graph: Graph) -> int:
    """How many triples a split has that one before it has already; none repeats within its own."""
    sizes = len(graph.entities), len(graph.relations)
    held_out = np.concatenate([graph.valid, graph.test])
    wanted = np.zeros(sizes[0], dtype=bool)
    wanted[held_out[:, 0]] = True
    keys = distinct(triple_keys(held_out, *sizes))
    facts = triple_keys(graph.train[wanted[graph.train[:, 0]]], *sizes)
    in_train = np.count_nonzero(position(keys, facts) >= 0)
    return len(held_out) - len(keys) + int(in_train)


def _used(ids: np.ndarray, n: int) -> int:
    """How many of the ids 0..n-1 occur."""
    used = np.zeros(n, dtype=bool)
    used[ids] = True
    return int(np.count_nonzero(used))


def _warn_of_swapped_columns(graph: Graph) -> None:
    """Warn where the second column looks like one of entities."""
    triples = graph.triples
    heads, tails = (_used(triples[:, column], len(graph.entities)) for column in (0, 2))
    n, fewest = len(graph.relations), min(heads, tails)
    names = set(graph.relations.names) if n > 1.5 * fewest else set()
    shared = len(names.intersection(graph.entities.names)) if names else 0
    if n > max(100, 5 * fewest) or (n > 1.5 * fewest and shared > n / 2):
        warn(
            f"{graph.name}: {n:,} relations but only {heads:,} heads and {tails:,} tails; if the "
            "columns are in another order, pass --columns, for example --columns htr"
        )


def split_triples(
    triples: np.ndarray,
    n_entities: int,
    n_relations: int,
    fractions: tuple[float, float, float] = FRACTIONS,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split distinct ``triples`` at random so that train mentions every entity and relation.

    In a random order, the first triple of each entity and of each relation stays in train; valid
    and test are drawn from the others.  Each part keeps the order of ``triples``.  Linear in the
    number of triples; equal arguments give equal parts.
    """
    train, valid, test = fractions
    if not (train > 0 and valid >= 0 and test >= 0 and abs(train + valid + test - 1) < 1e-6):
        raise ConfigError(
            f"fractions of train, valid and test must be positive and add up to 1, not {fractions}"
        )
    if seed < 0:
        raise ConfigError(f"seed must be at least 0, not {seed}")
    n = len(triples)
    order = np.random.default_rng(seed).permutation(n)
    shuffled = triples[order]
    needed = np.zeros(n, dtype=bool)  # the first to mention some entity or some relation
    for columns, size in (([0, 2], n_entities), ([1], n_relations)):
        places = first_places(shuffled[:, columns].ravel(), size)
        needed[places[places < n * len(columns)] // len(columns)] = True
    free = order[~needed]
    wanted = np.array([round(n * valid), round(n * test)])
    if wanted.sum() > len(free):
        first = round(len(free) * wanted[0] / wanted.sum())
        warn(
            f"only {counted(len(free), 'triple')} of {n:,} can be held out, not {wanted.sum():,}: "
            "every entity and relation must keep one in train"
        )
        wanted = np.array([first, len(free) - first])
    part = np.zeros(n, dtype=np.int8)
    part[free[: wanted[0]]] = 1
    part[free[wanted[0] : wanted.sum()]] = 2
    return triples[part == 0], triples[part == 1], triples[part == 2]


def first_places(ids: np.ndarray, n: int) -> np.ndarray:
    """The first position of each of the ids 0..n-1; ``len(ids)`` for one that does not occur."""
    places = np.full(n, len(ids), dtype=np.int64)
    # Assigned back to front: where an id repeats, its first position is written last.
    places[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
    return places
