// The state of the page and its address.

import assert from "node:assert/strict";
import { test } from "node:test";
import { address, asked, next, read } from "../../src/bilink/serving/page/state.js";

test("an address gives back its state", () => {
  for (const search of ["?", "?head=a&relation=b&new=1", "?view=new&sort=name&least=25", "?view=doubts&k=60&relation=r",
    "?view=facts&head=a&relation=r&side=head&from=50", "?view=review&part=decisions&decision=reject", "?run=1&card=entity%3Ax&head=h&tail=t",
    "?view=map&relation=r", "?head=%27%3C%22%26+%D7%A9"]) {
    const once = address(read(search));
    assert.equal(address(read(once)), once);
    assert.deepEqual([...new URLSearchParams(once)].sort(), [...new URLSearchParams(search)].sort());
  }
});

test("what makes no sense is left out", () => {
  const state = read("?view=evil&k=-4&from=x&least=900&new=2&__proto__=1&constructor=2");
  assert.equal(state.view, "ask");
  assert.deepEqual([state.k, state.from, state.least, state.new], [1, 0, 100, false]);
  assert.equal(read("?k=1e9").k, 1);
  assert.equal(read("?view=map&head=a").head, null);
});

test("another question begins its list anew", () => {
  const state = read("?head=a&relation=r&from=20&find=x&sort=name&k=30&new=1&card=entity%3Ac");
  const other = next(state, { tail: "t", head: null });
  assert.deepEqual([other.from, other.find, other.sort, other.k, other.new, other.card], [0, null, null, 30, true, "entity:c"]);
  assert.equal(next(state, { card: null }).find, "x");
});

test("another view keeps the run and nothing else", () => {
  const state = read("?run=1&head=a&relation=r&card=entity%3Ac&find=x");
  assert.equal(address(next(state, { view: "doubts" })), "?view=doubts&run=1");
  assert.equal(address(next(state, { view: "graph", head: "z" })), "?view=graph&run=1&head=z");
});

test("what a question leaves open", () => {
  assert.deepEqual([{ head: "a", tail: "b" }, { head: "a" }, { tail: "b" }, { relation: "r" }, {}].map(asked),
    ["relation", "tail", "head", "pair", "fact"]);
});
