"""Many questions at once: an answer or an error for each, and blocks of scores for many."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bilink.errors import BilinkError, ConfigError, DataError, QueryStopped
from bilink.models.scorer import Side
from bilink.serving.explorer import Explorer
from bilink.serving.failures import describe

MOST_ANSWERS = 50_000  # in all
_AT_ONCE = 64  # questions
_OPTIONS = ("k", "offset", "new", "seen", "any_entity", "missing")
_STOPPED = "The batch took too long before this question was reached; ask fewer at once."

Row = dict[str, Any]


def answer_batch(
    explorer: Explorer, questions: Sequence[Row], stop: Callable[[], bool] = lambda: False
) -> Row:
    """The answers to many questions, each with the parameters of ``Explorer.query``, in order.

    A question that has none gets an error instead, and so do those not reached when ``stop``
    returns true.  Questions that differ in names alone are answered together.
    """
    if sum(question["k"] for question in questions) > MOST_ANSWERS:
        raise ConfigError(f"a batch may ask for {MOST_ANSWERS:,} answers in all; ask for fewer")
    results: list[Row] = [{} for _ in questions]
    groups: dict[tuple[Any, ...], list[tuple[int, int, int]]] = {}
    for i, question in enumerate(questions):
        try:
            side, entity, r = _place(explorer, question)
        except (ConfigError, DataError) as error:
            results[i] = _failed(error)
        else:
            key = (side, *(question[name] for name in _OPTIONS))
            groups.setdefault(key, []).append((i, entity, r))
    for (side, *values), members in groups.items():
        options = dict(zip(_OPTIONS, values, strict=True))
        for start in range(0, len(members), _AT_ONCE):
            part = members[start : start + _AT_ONCE]
            asked = np.array([place for _, *place in part], dtype=np.int64)
            found = _answer(explorer, side, asked, options, stop)
            for (i, _, _), result in zip(part, found, strict=True):
                results[i] = result
    return {"results": results}


def _place(explorer: Explorer, question: Row) -> tuple[Side | None, int, int]:
    """The side that is asked for, the entity and the relation; or None, and two entities."""
    names = question["head"], question["relation"], question["tail"]
    if names[0] is None and names[2] is None:
        raise ConfigError("a question of a batch needs a head or a tail; ask for pairs one by one")
    match explorer.ids(*names):
        case int(h), int(r), None:
            return "tail", h, r
        case None, int(r), int(t):
            return "head", t, r
        case int(h), None, int(t):
            return None, h, t
    raise ConfigError("leave one of head, relation and tail open")


def _answer(
    explorer: Explorer,
    side: Side | None,
    asked: np.ndarray,
    options: Row,
    stop: Callable[[], bool],
) -> list[Row]:
    """The results for questions that differ in names alone."""
    if stop():
        return [_failed(QueryStopped(_STOPPED))] * len(asked)
    given = {name: value for name, value in options.items() if name != "seen"}
    try:
        if side is None:
            pairs = asked.tolist()
            found = [explorer.run.query_ids(h, None, t, **given) for h, t in pairs]
        else:
            only = "seen" if options["seen"] else None
            found = explorer.run.query_block(side, asked, only=only, **given)
        return [
            {"answers": explorer.shown(answers, options["offset"]), "error": None}
            for answers in found
        ]
    except BilinkError as error:
        return [_failed(error)] * len(asked)


def _failed(error: Exception) -> Row:
    return {"answers": None, "error": describe(error)[1]}
