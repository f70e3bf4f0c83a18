"""An interval certificate made into a matrix of fractions; imports nothing from bilink."""

from fractions import Fraction


def exact_assembly(certificate, matrix):
    """Whether rational factors of the certified rank are above K exactly on the ones of matrix."""
    rank = certificate.rank
    rows, columns = {}, {}
    for number, block in enumerate(certificate.blocks):
        a, b, left, right = _local(block, matrix.T if block.transposed else matrix)
        centre, tangents = _frame(number, rank)
        first, second = (columns, rows) if block.transposed else (rows, columns)
        for i, row in enumerate(block.rows):
            first[int(row)] = (centre, a[i], _combine(tangents, left[i]))
        for j, column in enumerate(block.columns):
            second[int(column)] = (centre, b[j], _combine(tangents, right[j]))
    root = Fraction(2)
    for _ in range(200):  # K = root², as large as it takes
        if _above(rows, columns, matrix, root):
            return True
        root *= 2
    return False


def _above(rows, columns, matrix, root):
    for i, row in rows.items():
        u = _vector(row, root)
        for j, column in columns.items():
            score = sum(x * y for x, y in zip(u, _vector(column, root), strict=True))
            if (score > root * root) != bool(matrix[i, j]):
                return False
    return True


def _vector(part, root):
    centre, bias, tangent = part
    return [(root + bias / root) * c + t for c, t in zip(centre, tangent, strict=True)]


def _local(block, matrix):
    """The biases and products of one block: coefficients of polynomials, and powers of t."""
    intervals = [
        list(zip(block.first[s:e], block.last[s:e], strict=True))
        for s, e in zip(block.offset, block.offset[1:], strict=False)
    ]
    c = max(
        (len(r) for r, apart in zip(intervals, block.apart, strict=True) if not apart), default=0
    )
    apart = [i for i, x in enumerate(block.apart) if x]
    m = len(block.columns)
    b = [-(Fraction(t) ** (2 * c)) if c else Fraction(0) for t in range(m)]
    right = [[Fraction(t) ** k for k in range(1, 2 * c)] for t in range(m)]
    large = max((abs(x) for x in b), default=0) + 1
    a, left = [], []
    for i in range(len(block.rows)):
        if i in apart:
            a.append(-large)
            left.append([Fraction(0)] * max(0, 2 * c - 1))
        else:
            p = [Fraction(-1)]
            for s, e in intervals[i]:
                p = _times(_times(p, [Fraction(1, 2) - int(s), 1]), [-int(e) - Fraction(1, 2), 1])
            for _ in range(c - len(intervals[i])):
                p = _times(p, [1, 0, 1])
            assert len(p) == 2 * c + 1
            assert p[-1] == -1
            a.append(p[0])
            left.append(p[1:-1])
    for i in apart:
        for k in range(len(block.rows)):
            left[k].append(Fraction(k == i))
        for t in range(m):
            one = matrix[block.rows[i], block.columns[t]]
            right[t].append(3 * large if one else Fraction(0))
    return a, b, left, right


def _times(p, q):
    result = [Fraction(0)] * (len(p) + len(q) - 1)
    for i, x in enumerate(p):
        for j, y in enumerate(q):
            result[i + j] += x * y
    return result


def _frame(number, rank):
    """A rational point of the unit sphere, another one for each number, and its tangents.

    The reflection that takes the last axis to the point takes the other axes to the tangents.
    """
    if rank == 1:
        return [Fraction(1)], []
    u = Fraction(number)
    point = [Fraction(0)] * rank
    point[0], point[-1] = 2 * u / (u * u + 1), (1 - u * u) / (u * u + 1)
    axis = [x - (k == rank - 1) for k, x in enumerate(point)]
    length = sum(x * x for x in axis)
    tangents = []
    for d in range(rank - 1):
        share = 2 * axis[d] / length if length else 0
        tangents.append([Fraction(k == d) - share * axis[k] for k in range(rank)])
    assert all(sum(x * y for x, y in zip(t, point, strict=True)) == 0 for t in tangents)
    return point, tangents


def _combine(tangents, weights):
    assert len(weights) <= len(tangents)
    size = len(tangents[0]) if tangents else 1
    total = [Fraction(0)] * size
    for tangent, weight in zip(tangents, weights, strict=False):
        total = [x + weight * y for x, y in zip(total, tangent, strict=True)]
    return total
