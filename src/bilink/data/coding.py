"""Large texts of triples: numbered in one pass, without a string for each field.

Only texts that leave no doubt are read this way: each line has the three fields, none is empty,
none has a space at its edge, and nothing is quoted.  All others are left to ``text``, which says
what is wrong with them, and where.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bilink._jit import kernel, kernel_function, loop, mix
from bilink.data.limits import check_fields
from bilink.data.text import BOM, NEWLINE, QUOTE, QUOTING, SPACE, Layout

Coded = tuple[np.ndarray, list[str], list[str]]

_PACKED = 8  # bytes of a name that fit into its key
_LENGTH = 40  # bits of a number; the length of the name stands above them
_START = 1 << 16  # places of a table at first
_FIELD = 20  # bytes of memory for each field, if a third of the names are new


def code(data: bytes, layout: Layout, path: Path) -> Coded | None:
    """The triples of a text as numbers (int32), and the names of entities and relations.

    Names have their numbers in the order of first appearance, the head before the tail.  None where
    the text is to be read field by field.  ``data`` is valid UTF-8 and ends with a line end.
    """
    separator = layout.separator
    if layout.width != 3 or layout.truth is not None or data.startswith((BOM, b"\n")):
        return None
    if b"\r" in data or (separator in QUOTING and bytes([QUOTE]) in data):
        return None
    start = data.index(b"\n") + 1 if layout.header else 0
    lines = data.count(b"\n", start)
    check_fields(path, data, 3 * lines, copies=1, field=_FIELD)
    raw = np.frombuffer(data, dtype=np.uint8)
    roles = np.empty(3, dtype=np.int64)  # of each column: 0 head, 1 relation, 2 tail
    roles[list(layout.order)] = np.arange(3)
    triples = np.empty((lines, 3), dtype=np.int32)
    entities, relations = _new_names(_START), _new_names(_START)
    entities, relations, rows = code_lines(
        raw, start, ord(separator), roles, triples, entities, relations
    )
    if rows < len(triples) or not rows:
        return None
    return triples, _texts(raw, entities), _texts(raw, relations)


def _texts(raw: np.ndarray, names: "Names") -> list[str]:
    """The names of a table as strings."""
    count = int(names.count[0])
    lengths = names.lengths[:count].astype(np.int64)
    ends = np.cumsum(lengths + 1)
    joined = np.empty(int(ends[-1]), dtype=np.uint8)
    copy_names(raw, names.offsets[:count], lengths, ends, joined)
    return joined.tobytes().decode().split("\n")[:-1]


class Names(NamedTuple):
    """An open-addressing hash table of names, which stay where they stand in the text."""

    # int64, (places, 2): the key of a name, and its number + 1 with its length above; 0 is empty.
    # Keys of names of up to 8 bytes are the names, those of longer ones are hashes.
    places: Any
    offsets: Any  # int64, of each name: where it first stands
    lengths: Any  # int32
    count: Any  # int64, one number: how many


@kernel_function
def _make_names(size):
    """An empty table; ``size`` is a power of two."""
    return Names(
        np.zeros((size, 2), dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int32),
        np.zeros(1, dtype=np.int64),
    )


@kernel
def _new_names(size):
    """An empty table, for Python."""
    return _make_names(size)


@kernel_function
def _grown(names):
    """The same table with twice as many places."""
    larger = _make_names(2 * names.places.shape[0])
    _copy(names, larger)
    return larger


@loop
def _copy(names, larger):
    mask = larger.places.shape[0] - 1
    larger.count[0] = names.count[0]
    for i in range(names.count[0]):
        larger.offsets[i], larger.lengths[i] = names.offsets[i], names.lengths[i]
    for i in range(names.places.shape[0]):
        if names.places[i, 1] != 0:
            place = np.int64(mix(np.uint64(names.places[i, 0])) & np.uint64(mask))
            while larger.places[place, 1] != 0:
                place = (place + 1) & mask
            larger.places[place, 0] = names.places[i, 0]
            larger.places[place, 1] = names.places[i, 1]


@loop
def _same(raw, first, second, length):
    """Whether the same bytes stand in two places."""
    i = 0
    while i < length and raw[first + i] == raw[second + i]:
        i += 1
    return i == length


@loop
def _number(raw, names, start, length, key):
    """The number of a name; a new one gets the next, and the table has room for it."""
    mask = names.places.shape[0] - 1
    place = np.int64(mix(np.uint64(key)) & np.uint64(mask))
    while True:
        found = names.places[place, 1]
        if found == 0:
            number = names.count[0]
            names.places[place, 0] = key
            names.places[place, 1] = (np.int64(length) << _LENGTH) + number + 1
            names.offsets[number], names.lengths[number] = start, length
            names.count[0] = number + 1
            return number
        if names.places[place, 0] == key and found >> _LENGTH == length:
            number = (found & ((np.int64(1) << _LENGTH) - 1)) - 1
            if length <= _PACKED or _same(raw, names.offsets[number], start, length):
                return number
        place = (place + 1) & mask


@loop
def _field(raw, start, separator):
    """Where a field ends, and the key of its name."""
    key, end, i = np.uint64(0), start, 0
    while raw[end] != separator and raw[end] != NEWLINE:
        if i == _PACKED:
            key, i = mix(key + np.uint64(0x9E3779B97F4A7C15)), 0
        key ^= np.uint64(raw[end]) << np.uint64(8 * i)
        end += 1
        i += 1
    return end, np.int64(key)


@kernel
def code_lines(raw, start, separator, roles, triples, entities, relations):
    """Fill ``triples`` with numbers of names; returns the tables, and how many lines were read.

    It ends at the first line that is not plain.  The text ends with a line end.
    """
    fields = np.empty((3, 3), dtype=np.int64)  # by role: start, length, key
    size, row = raw.shape[0], 0
    while start < size:
        for column in range(3):
            end, key = _field(raw, start, separator)
            last = raw[end] == NEWLINE
            if end == start or last != (column == 2):
                return entities, relations, row
            if raw[start] == SPACE or raw[end - 1] == SPACE:
                return entities, relations, row
            role = roles[column]
            fields[role, 0], fields[role, 1], fields[role, 2] = start, end - start, key
            start = end + 1
        if 3 * entities.count[0] > 2 * entities.places.shape[0] - 6:
            entities = _grown(entities)
        if 3 * relations.count[0] > 2 * relations.places.shape[0] - 6:
            relations = _grown(relations)
        for role in range(3):
            names = relations if role == 1 else entities
            at, length, key = fields[role, 0], fields[role, 1], fields[role, 2]
            triples[row, role] = _number(raw, names, at, length, key)
        row += 1
    return entities, relations, row


@kernel
def copy_names(raw, offsets, lengths, ends, out):
    """Write names with a line end behind each, which ``ends`` says where to put."""
    for i in range(offsets.shape[0]):
        at = ends[i] - 1 - lengths[i]
        for j in range(lengths[i]):
            out[at + j] = raw[offsets[i] + j]
        out[ends[i] - 1] = NEWLINE
