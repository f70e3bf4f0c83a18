"""The loops that count: how often a body holds, and how often the head holds with it.

A body is a walk along directed relations d₁, d₂, … from x to y over entities that all differ.  It
is counted once for each pair (x, y), however many walks there are.  Since no entity of a walk
repeats, the fact that a rule predicts is never part of its own evidence.
"""

from typing import Any, NamedTuple

import numpy as np

from bilink._jit import kernel, kernel_function, loop, mix
from bilink.paths.adjacency import degree, find_group, holds, inverse

EMPTY = np.int64(-1)


class Limits(NamedTuple):
    """Which rules are kept."""

    hub: Any  # entities with more edges are not crossed
    support: Any  # of a rule, at least
    confidence: Any  # likewise
    prior: Any  # groundings that are added to every body


# -- a table of counts -----------------------------------------------------------------------------


class Counts(NamedTuple):
    """An open-addressing hash table from whole numbers to counts."""

    keys: Any  # int64
    counts: Any  # int64
    owners: Any  # int64: who counted a key last
    used: Any  # int64, one number: how many keys there are


@kernel_function
def new_counts(size):
    """An empty table; ``size`` is a power of two."""
    return Counts(
        np.full(size, EMPTY),
        np.zeros(size, dtype=np.int64),
        np.full(size, EMPTY),
        np.zeros(1, dtype=np.int64),
    )


@loop
def slot(keys, key):
    """Where a key stands, or where it would be put."""
    mask = keys.shape[0] - 1
    place = np.int64(mix(np.uint64(key)) & np.uint64(mask))
    while keys[place] != EMPTY and keys[place] != key:
        place = (place + 1) & mask
    return place


@loop
def has_room(table, keys):
    """Whether the table stays at most half full with so many more keys."""
    return 2 * (table.used[0] + keys) <= table.keys.shape[0]


@loop
def count_key(table, key, owner):
    """Count a key, but only once for the same owner; the table has room for it."""
    place = slot(table.keys, key)
    if table.keys[place] == EMPTY:
        table.keys[place] = key
        table.used[0] += 1
    if table.owners[place] != owner:
        table.owners[place] = owner
        table.counts[place] += 1


@kernel_function
def grown(table):
    """The same table with twice as many places."""
    larger = new_counts(2 * table.keys.shape[0])
    _copy_counts(table, larger)
    return larger


@loop
def _copy_counts(table, larger):
    """Put all that one table counts into an empty one."""
    for i in range(table.keys.shape[0]):
        if table.keys[i] != EMPTY:
            place = slot(larger.keys, table.keys[i])
            larger.keys[place], larger.counts[place] = table.keys[i], table.counts[i]
            larger.owners[place] = table.owners[i]
    larger.used[0] = table.used[0]


@loop
def is_kept(support, groundings, limits):
    """Whether a rule is worth keeping."""
    enough = support >= limits.support
    return enough and support >= limits.confidence * (groundings + limits.prior)


# -- walks of one and two steps --------------------------------------------------------------------


@kernel
def count_single(edges, n_relations, bodies, supports):
    """bodies[d] = pairs joined by d; supports[r, d] = of these, joined by the relation r too."""
    _count_single(edges, n_relations, bodies, supports)


@loop
def _count_single(edges, n_relations, bodies, supports):
    for link in range(edges.link_neighbour.shape[0]):
        for i in range(edges.link_start[link], edges.link_start[link + 1]):
            d = edges.relations[i]
            bodies[d] += 1
            for j in range(edges.link_start[link], edges.link_start[link + 1]):
                r = edges.relations[j]
                if r < n_relations and r != d:
                    supports[r, d] += 1


class _Seconds(NamedTuple):
    """The groups that a second step may take, as one list for each of its relations."""

    newest: Any  # int64, per directed relation: the last entry of its list, or EMPTY
    group: Any  # int64, of each entry
    before: Any  # int64, of each entry: the one before it in its list
    relations: Any  # int64: the relations that have a list


class _Marks(NamedTuple):
    """Marks on entities that need no clearing, since each walk has its own number."""

    walk: Any  # int64: the walk that last reached the entity
    link: Any  # int64: the link of some x to the entity, that of this x if it is one of its own


@loop
def _mark_links(edges, marks, x):
    """Mark the neighbours of x."""
    for link in range(edges.links[x], edges.links[x + 1]):
        marks.link[edges.link_neighbour[link]] = link


@loop
def _most_seconds(edges, first, starts):
    """How many groups the second steps of one start take, at most."""
    most = 0
    for x in starts:
        group, total = find_group(edges, x, first), 0
        for i in range(edges.group_start[group], edges.group_start[group + 1]):
            z = edges.neighbours[i]
            total += edges.groups[z + 1] - edges.groups[z]
        most = max(most, total)
    return most


@loop
def _list_seconds(edges, n_relations, seconds, x, first, hub):
    """Fill the lists for a start; returns how many there are.

    The rule with head r and a body is that with the head turned round and the inverse body.  So of
    a body and its inverse only the smaller one is walked.
    """
    entries, lists = 0, 0
    back = inverse(first, n_relations)
    group = find_group(edges, x, first)
    for i in range(edges.group_start[group], edges.group_start[group + 1]):
        z = edges.neighbours[i]
        if degree(edges, z) > hub:
            continue
        for g in range(edges.groups[z], edges.groups[z + 1]):
            d = edges.group_relation[g]
            other = inverse(d, n_relations)
            if other < first or (other == first and back < d):
                continue
            if seconds.newest[d] == EMPTY:
                seconds.relations[lists] = d
                lists += 1
            seconds.group[entries], seconds.before[entries] = g, seconds.newest[d]
            seconds.newest[d] = entries
            entries += 1
    return lists


@loop
def _walk_second(edges, n_relations, seconds, marks, table, x, d, walk, only_forward):
    """Walk from x along one second relation; count all heads of the pairs reached.

    Returns the number of pairs.  The table has room for as many keys as x has edges.
    """
    entry = seconds.newest[d]
    several = seconds.before[entry] != EMPTY  # so that an entity may be reached twice
    first_link, last_link = edges.links[x], edges.links[x + 1]
    reached = 0
    while entry != EMPTY:
        group = seconds.group[entry]
        for i in range(edges.group_start[group], edges.group_start[group + 1]):
            y = edges.neighbours[i]
            if y == x or (several and marks.walk[y] == walk):
                continue
            marks.walk[y] = walk
            reached += 1
            link = marks.link[y]
            if not first_link <= link < last_link:
                continue
            for m in range(edges.link_start[link], edges.link_start[link + 1]):
                head = edges.relations[m]
                if head < n_relations or not only_forward:
                    key = np.int64(d) * 2 * n_relations + head
                    count_key(table, key, walk * (last_link + 1) + link)
        entry = seconds.before[entry]
    return reached


@kernel
def count_double(edges, n_relations, first, starts, limits):
    """All rules r(x, y) ← first(x, z), d(z, y), as rows (r, first, d, support, groundings).

    ``starts`` are the entities with an edge along ``first``.
    """
    n, width = edges.groups.shape[0] - 1, 2 * n_relations
    most = _most_seconds(edges, first, starts)
    seconds = _Seconds(
        np.full(width, EMPTY),
        np.empty(most, dtype=np.int64),
        np.empty(most, dtype=np.int64),
        np.empty(width, dtype=np.int64),
    )
    marks = _Marks(np.full(n, EMPTY), np.full(n, EMPTY))
    bodies = np.zeros(width, dtype=np.int64)
    table = new_counts(1 << 10)
    back, walk = inverse(first, n_relations), np.int64(0)
    for x in starts:
        _mark_links(edges, marks, x)
        for k in range(_list_seconds(edges, n_relations, seconds, x, first, limits.hub)):
            d = seconds.relations[k]
            walk += 1
            while not has_room(table, degree(edges, x)):
                table = grown(table)
            # A body that is its own inverse is walked from both of its ends.
            bodies[d] += _walk_second(
                edges, n_relations, seconds, marks, table, x, d, walk, d == back
            )
            seconds.newest[d] = EMPTY
    return _double_rules(table, bodies, n_relations, first, limits)


@kernel_function
def _double_rules(table, bodies, n_relations, first, limits):
    """The rules behind the counts of one first step that are worth keeping."""
    width = 2 * n_relations
    rows = np.empty((table.used[0], 5), dtype=np.int64)
    found = 0
    for place in range(table.keys.shape[0]):
        if table.keys[place] == EMPTY:
            continue
        d, head = table.keys[place] // width, table.keys[place] % width
        if not is_kept(table.counts[place], bodies[d], limits):
            continue
        rows[found, 3], rows[found, 4] = table.counts[place], bodies[d]
        if head < n_relations:
            rows[found, 0], rows[found, 1], rows[found, 2] = head, first, d
        else:
            rows[found, 0], rows[found, 1] = head - n_relations, inverse(d, n_relations)
            rows[found, 2] = inverse(first, n_relations)
        found += 1
    return rows[:found].copy()


# -- walks of three steps --------------------------------------------------------------------------


@kernel
def close_triple(edges, n_relations, facts, hub, steps, most):
    """Bodies of three steps that join facts (x, y) of one relation, the most frequent first.

    Rows (d₁, d₂, d₃, facts that it joins), at most ``most``.  Facts are looked at until ``steps``
    neighbours have been.
    """
    marks = _Marks(np.empty(0, dtype=np.int64), np.full(edges.groups.shape[0] - 1, EMPTY))
    table = new_counts(1 << 12)
    for f in range(facts.shape[0]):
        x, y = facts[f, 0], facts[f, 1]
        if x == y:
            continue
        if steps <= 0:
            break
        _mark_links(edges, marks, y)
        for g in range(edges.groups[x], edges.groups[x + 1]):
            for i in range(edges.group_start[g], edges.group_start[g + 1]):
                z = edges.neighbours[i]
                if z != y and degree(edges, z) <= hub:
                    steps -= degree(edges, z)
                    first = edges.group_relation[g]
                    ends = (x, z, y)
                    while not _close_from(edges, n_relations, marks, table, ends, first, f, hub):
                        table = grown(table)  # and once more: a fact counts once
    return _most_frequent(table, 2 * n_relations, most)


@loop
def _close_from(edges, n_relations, marks, table, ends, first, fact, hub):
    """Count the bodies that go on from z, along one more edge and a link of y.

    Returns whether the table had room for all.
    """
    x, z, y = ends
    width = 2 * n_relations
    first_link, last_link = edges.links[y], edges.links[y + 1]
    for g in range(edges.groups[z], edges.groups[z + 1]):
        both = np.int64(first) * width + edges.group_relation[g]
        for i in range(edges.group_start[g], edges.group_start[g + 1]):
            z2 = edges.neighbours[i]
            link = marks.link[z2]
            if not first_link <= link < last_link or z2 == x or degree(edges, z2) > hub:
                continue
            for m in range(edges.link_start[link], edges.link_start[link + 1]):
                if not has_room(table, 1):
                    return False
                count_key(table, both * width + inverse(edges.relations[m], n_relations), fact)
    return True


@kernel_function
def _most_frequent(table, width, most):
    """The keys that were counted more than once, as rows (d₁, d₂, d₃, count)."""
    rows = np.empty((table.used[0], 4), dtype=np.int64)
    found = 0
    for place in np.argsort(table.keys):
        key = table.keys[place]
        if key != EMPTY and table.counts[place] > 1:
            rows[found, 0], rows[found, 1] = key // (width * width), key // width % width
            rows[found, 2], rows[found, 3] = key % width, table.counts[place]
            found += 1
    order = np.argsort(-rows[:found, 3], kind="mergesort")[:most]
    return rows[order].copy()


@kernel
def count_triple(edges, head, bodies, starts, hub, most_starts, most_steps, out):
    """out[b] = (support, groundings) of head(x, y) ← a body of three steps, on sampled starts.

    ``starts`` are the entities with an edge along the first relation of all bodies, in random
    order.  The first ``most_starts`` of them are walked, and none once ``most_steps`` are done.
    """
    seen = np.full(edges.groups.shape[0] - 1, EMPTY)
    walk = np.int64(0)
    counts = np.empty(3, dtype=np.int64)  # support, groundings, steps
    for b in range(bodies.shape[0]):
        body = bodies[b]
        counts[:] = 0
        for x in starts[:most_starts]:
            if counts[2] > most_steps:
                break
            walk += 1
            _walk_triple(edges, head, body, x, hub, seen, walk, counts)
        out[b, 0], out[b, 1] = counts[0], counts[1]


@loop
def _walk_triple(edges, head, body, x, hub, seen, walk, counts):
    """Walk along one body from one start."""
    own = find_group(edges, x, head)
    g1 = find_group(edges, x, body[0])
    for i in range(edges.group_start[g1], edges.group_start[g1 + 1]):
        z = edges.neighbours[i]
        counts[2] += 1
        g2 = find_group(edges, z, body[1])
        if g2 < 0 or degree(edges, z) > hub:
            continue
        for j in range(edges.group_start[g2], edges.group_start[g2 + 1]):
            z2 = edges.neighbours[j]
            counts[2] += 1
            g3 = find_group(edges, z2, body[2])
            if z2 == x or g3 < 0 or degree(edges, z2) > hub:
                continue
            for k in range(edges.group_start[g3], edges.group_start[g3 + 1]):
                y = edges.neighbours[k]
                counts[2] += 1
                if y != x and y != z and seen[y] != walk:
                    seen[y] = walk
                    counts[1] += 1
                    counts[0] += int(own >= 0 and holds(edges, own, y))


# -- rules with constants --------------------------------------------------------------------------


class _Bodies(NamedTuple):
    """The bodies of one head e(X, c), and for how many of its X each holds."""

    count: Any  # int32, per body
    touched: Any  # int64: the bodies that hold for some X
    found: Any  # int64, two numbers: how many; and X that have no other object along e than c


@kernel
def count_constants(edges, n_relations, reverse, owners, heads, limits, most):
    """Rules e(X, c) ← s(X, d) and e(X, c) ← s(X, ·), for some heads (e, c); d is not c.

    A head is a group: that of c along the inverse of e, which holds its X.  A body s(X, d) is the
    group of d along the inverse of s, which holds its X; a body s(X, ·) has the number of s behind
    all groups.  ``reverse`` has the body of each edge, ``owners`` the c of each group.  Rows (head,
    body, support, groundings), at most ``most`` for a head, the most confident ones.
    """
    n_groups, width = edges.group_relation.shape[0], 2 * n_relations
    with_relation = np.zeros(width, dtype=np.int64)
    for g in range(n_groups):
        with_relation[edges.group_relation[g]] += 1
    bodies = _Bodies(
        np.zeros(n_groups + width, dtype=np.int32),
        np.empty(n_groups + width, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
    )
    rows, found = np.empty((1 << 12, 4), dtype=np.int64), 0
    for head in heads:
        if edges.group_start[head + 1] - edges.group_start[head] < limits.support:
            continue
        e = inverse(edges.group_relation[head], n_relations)
        _count_bodies(edges, reverse, bodies, head, owners[head], e, limits.hub)
        kept = np.empty((bodies.found[0], 3), dtype=np.int64)
        kept = kept[: _keep_bodies(edges, bodies, with_relation, e, limits, kept)]
        if len(kept) > most:
            confidence = kept[:, 1] / (kept[:, 2] + limits.prior)
            kept = kept[np.argsort(-confidence, kind="mergesort")[:most]]
        while found + len(kept) > len(rows):
            rows = np.concatenate((rows, np.empty_like(rows)))
        for i in range(len(kept)):
            rows[found, 0] = head
            rows[found, 1:] = kept[i]
            found += 1
    return rows[:found].copy()


@loop
def _count_bodies(edges, reverse, bodies, head, c, e, hub):
    """Count what the X of a head have besides it."""
    n_groups = edges.group_relation.shape[0]
    bodies.found[:] = 0
    for i in range(edges.group_start[head], edges.group_start[head + 1]):
        x = edges.neighbours[i]
        if degree(edges, x) > hub:
            continue
        for g in range(edges.groups[x], edges.groups[x + 1]):
            s = edges.group_relation[g]
            if s == e and edges.group_start[g + 1] - edges.group_start[g] == 1:
                bodies.found[1] += 1  # the fact would be its own evidence
            else:
                _count_body(bodies, n_groups + s)
            for j in range(edges.group_start[g], edges.group_start[g + 1]):
                if edges.neighbours[j] != c:
                    _count_body(bodies, reverse[j])


@loop
def _count_body(bodies, body):
    """One more X has a body."""
    if bodies.count[body] == 0:
        bodies.touched[bodies.found[0]] = body
        bodies.found[0] += 1
    bodies.count[body] += 1


@loop
def _keep_bodies(edges, bodies, with_relation, e, limits, rows):
    """Rows (body, support, groundings) of the rules worth keeping; all counts are cleared.

    Returns how many there are.
    """
    n_groups, found = edges.group_relation.shape[0], 0
    for k in range(bodies.found[0]):
        body = bodies.touched[k]
        support = bodies.count[body]
        bodies.count[body] = 0
        if body < n_groups:
            groundings = edges.group_start[body + 1] - edges.group_start[body]
        else:
            groundings = with_relation[body - n_groups]
            groundings -= bodies.found[1] if body == n_groups + e else 0
        if is_kept(support, groundings, limits):
            rows[found, 0], rows[found, 1], rows[found, 2] = body, support, groundings
            found += 1
    return found
