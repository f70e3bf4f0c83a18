"""Doubts from a file that may have been touched by others."""

import pytest

from bilink.serving import cards

ROW = {
    "head": "a",
    "relation": "r",
    "tail": "b",
    "head_label": "A\u202e",
    "relation_label": "R",
    "tail_label": "B",
    "probability": 0.1,
    "score": float("inf"),
    "side": "tail",
    "suggestion": {"name": "c", "label": "C"},
}


def shown(monkeypatch, rows):
    monkeypatch.setattr(cards, "kept_doubts", lambda run: rows)
    return cards.doubts_of(None)


def test_a_row_is_shown_without_what_json_or_a_page_cannot_show(monkeypatch):
    (row,) = shown(monkeypatch, [ROW])
    assert row["score"] is None
    assert "\u202e" not in row["head_label"]
    assert row["suggestion"] == {"name": "c", "label": "C", "probability": None}
    assert shown(monkeypatch, None) is None


@pytest.mark.parametrize(
    "broken",
    [
        "a row",
        {**ROW, "head": 1},
        {**ROW, "score": "high"},
        {**ROW, "suggestion": {"name": "c"}},
        {**ROW, "suggestion": {**ROW["suggestion"], "probability": "much"}},
        {key: value for key, value in ROW.items() if key != "tail_label"},
    ],
)
def test_what_is_no_doubt_is_left_out(monkeypatch, broken):
    assert shown(monkeypatch, [broken]) == []
