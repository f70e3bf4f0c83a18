// What happens to rows before they are shown.

import assert from "node:assert/strict";
import { test } from "node:test";
import { arrange, fold, keyOf, lengths, relationsOf } from "../../src/bilink/serving/page/lists.js";

const row = (tail, probability, relation = "r", score = 1) =>
  ({ head: "h", relation, tail, head_label: "H", relation_label: relation.toUpperCase(), tail_label: tail, label: tail, probability, score });
const ROWS = [row("Ünï", 0.9), row("b", 0.5, "s"), row("a", 0.1)];
const tails = (rows) => rows.map(({ tail }) => tail);

test("rows are filtered by text, relation and probability", () => {
  assert.deepEqual(tails(arrange(ROWS, { find: "UNI" })), ["Ünï"]);
  assert.deepEqual(tails(arrange(ROWS, { only: "s" })), ["b"]);
  assert.deepEqual(tails(arrange(ROWS, { least: 50 })), ["Ünï", "b"]);
  assert.deepEqual(arrange(ROWS, {}), ROWS);
});

test("rows are sorted by name, and the list itself is left alone", () => {
  assert.deepEqual(tails(arrange(ROWS, { sort: "name" })), ["a", "b", "Ünï"]);
  assert.deepEqual(tails(ROWS), ["Ünï", "b", "a"]);
});

test("relations by label, each once", () => {
  assert.deepEqual(relationsOf(ROWS), [["r", "R"], ["s", "S"]]);
});

test("bars are probabilities, or scores within what is shown", () => {
  assert.deepEqual(lengths(ROWS), [0.9, 0.5, 0.1]);
  assert.deepEqual(lengths([row("a", null, "r", 3), row("b", null, "r", 1), row("c", null, "r", null)]), [1, 0.04, 0]);
});

test("keys tell triples apart that look alike when joined", () => {
  assert.notEqual(keyOf({ head: "a b", relation: "c", tail: "d" }), keyOf({ head: "a", relation: "b c", tail: "d" }));
  assert.equal(fold("ÉCOLE"), "ecole");
});
