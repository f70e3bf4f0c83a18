"""Doubts from a file that may have been touched by others."""

from bilink.serving import cards

ROW = {
    "head": "a",
    "relation": "r",
    "tail": "b",
    "head_label": "A\u202e",
    "relation_label": "R",
    "tail_label": "B",
    "probability": 0.1,
    "score": 1.5,
    "side": "tail",
    "suggestion": {"name": "c", "label": "C"},
}


def shown(monkeypatch, rows):
    monkeypatch.setattr(cards, "kept_doubts", lambda run: rows)
    return cards.doubts_of(None)


def test_a_row_is_shown_without_what_json_or_a_page_cannot_show(monkeypatch):
    (row,) = shown(monkeypatch, [ROW])
    assert row["score"] == 1.5
    assert "\u202e" not in row["head_label"]
    assert row["suggestion"] == {"name": "c", "label": "C", "probability": None}
    assert shown(monkeypatch, None) is None
