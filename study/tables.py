"""The paper's tables in Markdown, with published figures and ours side by side."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any

from study.wang2018 import LIKE, NAMES, PAPERS, Study, combos, published

SIDES = ("head", "tail")  # as in the results of an evaluation
CATEGORIES = ("1-1", "1-N", "N-1", "N-N")
NOTHING = "–"
FITS = ("paper", "stack", "best", "average", "platt")  # in the order of the tables


@dataclass(frozen=True)
class Piece:
    """A model or ensemble that is done."""

    name: str  # letters: "H", "R+H+T"
    recipe: str
    method: str | None  # of an ensemble
    found: dict[str, Any]  # its results

    @property
    def title(self) -> str:
        """The head of its row in a table."""
        how = f" ({self.method})" if self.method else ""
        return f"{NAMES.get(self.name, self.name)}, {self.recipe}{how}"


def pieces(studies: Sequence[Study]) -> Iterator[Piece]:
    """All pieces that are done, models first."""
    letters = [x for x in NAMES if any(x in study.settings for study in studies)]
    for letter in letters:
        for study in studies:
            if found := study.read(letter):
                yield Piece(letter, study.recipe, None, found)
    for members in combos(letters):
        name = "+".join(members)
        for study in studies:
            for method in FITS:
                if found := study.read(f"{name} ({method})"):
                    yield Piece(name, study.recipe, method, found)


def markdown(studies: Sequence[Study]) -> str:
    """All tables of one graph."""
    data = studies[0].data
    parts = [
        f"# {data}: the study of Wang et al. (2018)",
        "Filtered by train, valid and test; ties realistic; settings chosen on valid"
        f"{f' of {LIKE[data]}' if data in LIKE else ''}. Made by "
        f"`bilink study wang2018 --data {data}`. *paper*: the paper's recipe and settings; "
        "*improved*: margin training with other settings; *(stack)*: weights per relation and "
        "side, fitted on valid and shrunk; *(paper)*: logistic regression on training "
        "triples. R RESCAL, H HolE, T TransE, D DistMult, C ComplEx.",
        "## Data",
        _data(studies[0]),
        "## Settings",
        _settings(studies),
        "## Entity ranking",
        _ranking(studies),
        "## Hits@10 by category and side",
        _categories(studies),
        "## Triple classification",
        "Accuracy. *In position*: false triples have an entity that occurs in that position of the "
        "relation in training (Socher et al., 2013). *Any entity*: any entity will do.",
        _classification(studies),
        "## Is the ensemble better?",
        "MRR of the stacked ensemble less that of another, with the 95 % interval and p of a "
        "paired sign-flip test over the test triples.",
        _significance(studies),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; all columns but the first to the right."""
    line = "|".join(["---", *["---:"] * (len(head) - 1)])
    body = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([body[0], f"|{line}|", *body[1:]])


def _data(study: Study) -> str:
    graph = study.graph
    sizes: list[Sized] = [graph.entities, graph.relations, graph.train, graph.valid, graph.test]
    head = ("", "entities", "relations", "train", "valid", "test", "fingerprint")
    return table(head, [[study.data, *(f"{len(x):,}" for x in sizes), graph.fingerprint]])


def _settings(studies: Sequence[Study]) -> str:
    rows = []
    for study in studies:
        for letter, options in study.settings.items():
            rest = {k: v for k, v in options.items() if k not in ("model", "dim")}
            penalty = rest.pop("regularization", {})
            rest |= {f"regularization.{k}": v for k, v in penalty.items()}
            text = ", ".join(f"{k}={v}" for k, v in rest.items())
            if not (found := study.read(letter)):
                continue
            took = f"{found['minutes_of_training']:.1f}"
            rows.append([f"{NAMES[letter]}, {study.recipe}", str(options["dim"]), text, took])
    return table(("", "dim", "settings", "minutes"), rows)


def _ranking(studies: Sequence[Study]) -> str:
    theirs = published()["ranking"].get(studies[0].data, {})
    rows, seen = [], set()
    for piece in pieces(studies):
        if (name := piece.name) in theirs and name not in seen:
            seen.add(name)
            hits, mrr, mr = theirs[name]
            rows.append(
                [f"{NAMES.get(name, name)}, published", f"{hits:.1f}", f"{mrr:.1f}", f"{mr}"]
            )
        both = piece.found["test"]["both"]
        rows.append(
            [
                piece.title,
                f"{100 * both['hits@10']:.1f}",
                f"{100 * both['mrr']:.1f}",
                f"{both['mr']:.0f}",
            ]
        )
    return table(("", "Hits@10 (%)", "MRR (%)", "MR"), rows)


def _categories(studies: Sequence[Study]) -> str:
    theirs = published()["categories"].get(studies[0].data, {})
    head = ["", *(f"{side} {category}" for side in SIDES for category in CATEGORIES)]
    rows, seen = [], set()
    for piece in pieces(studies):
        if (name := piece.name) in theirs and name not in seen:
            seen.add(name)
            values = [f"{x:.1f}" for side in SIDES for x in theirs[name][side]]
            rows.append([f"{NAMES.get(name, name)}, published", *values])
        if name in PAPERS or len(name) > 3:
            ours = piece.found["test"]["categories"]
            rows.append(
                [piece.title, *(_hits(ours, c, side) for side in SIDES for c in CATEGORIES)]
            )
    return table(head, rows)


def _hits(categories: dict[str, Any], category: str, side: str) -> str:
    found = categories.get(category)
    return f"{100 * found[side]['hits@10']:.1f}" if found else NOTHING


def _classification(studies: Sequence[Study]) -> str:
    theirs = published()["classification"].get(studies[0].data, {})
    rows = []
    for piece in pieces(studies):
        kinds = ("classification_any_entity", "classification")
        ours = [piece.found[kind]["accuracy"] for kind in kinds]
        printed = f"{theirs[piece.name]:.1f}" if piece.name in theirs else NOTHING
        rows.append([piece.title, printed, *(f"{100 * x:.1f}" for x in ours)])
    return table(("", "published", "any entity", "in position"), rows)


def _significance(studies: Sequence[Study]) -> str:
    rows = []
    for piece in pieces(studies):
        if piece.method != "stack":
            continue
        for other, test in piece.found["against"].items():
            low, high = test["interval95"]
            rows.append(
                [
                    f"{piece.title} against {NAMES.get(other, other)}",
                    f"{test['difference']:+.4f}",
                    f"{low:+.4f} to {high:+.4f}",
                    f"{test['p_value']:.4f}",
                ]
            )
    return table(("", "difference", "95 % interval", "p"), rows) if rows else ""
