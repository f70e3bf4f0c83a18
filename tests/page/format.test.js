// Numbers, tables and commands as text.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { asCurl, asPython, csv, percent, pythonString, queryOf, readRule, shellWord } from "../../src/bilink/serving/page/format.js";

const HOSTILE = [
  "plain", "it's", "''; rm -rf ~; '", "$(id) `id` \\", 'a "quoted" one', "a\nb\x1b[31m", "-rf", "!history", "*?[x]", "שלום",
  "\u202egnp.exe", "'''\"\"\"", "\\u0041", "%s & | > < #", "e\u0301",
];

test("percentages", () => {
  assert.deepEqual([0, 1, 0.9996, 0.0001, 0.034, 0.5, 0.995].map(percent),
    ["0 %", "100 %", "> 99.9 %", "< 0.1 %", "3.4 %", "50 %", "99.5 %"]);
});

test("a shell gives back each name", () => {
  for (const name of HOSTILE) {
    assert.equal(execFileSync("sh", ["-c", `printf %s ${shellWord(name)}`], { encoding: "utf8" }), name);
  }
});

test("an address in a command holds nothing that a shell reads", () => {
  for (const name of [...HOSTILE, "lone \ud800 surrogate"]) {
    const command = asCurl(`http://127.0.0.1:8000/api/v1/query?${queryOf({ head: name, k: 10 })}`);
    assert.match(command, /^curl 'http:\/\/[\w:.]+\/api\/v1\/query\?[\w*.%+&=-]+'$/);
  }
});

test("a string of Python holds no letter that cannot be seen", () => {
  for (const name of [...HOSTILE, "lone \ud800 surrogate", "\u{e0041}"]) {
    assert.doesNotMatch(pythonString(name), /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
  }
  assert.equal(pythonString('a\n"b"\u202e\u{e0041}'), '"a\\n\\"b\\"\\u202e\\U000e0041"');
});

test("the question of a script", () => {
  const text = asPython({ head: "it's", relation: "r", tail: null, k: 5, new: true }, "runs/x");
  assert.match(text, /run\.query\(head="it's", relation="r", new=True, k=5\)/);
  assert.match(asPython({ k: 5, new: true }, "runs/x"), /run\.new_facts\(5\)/);
});

test("a table quotes what would break it", () => {
  const table = csv([{ head: 'a "b", c', relation: "r\nr", tail: "t", probability: 0.5, known: false }]);
  assert.equal(table, 'head,relation,tail,probability,known\r\n"a ""b"", c","r\nr",t,0.5,false\r\n');
});

test("parameters that say nothing are left out", () => {
  assert.equal(queryOf({ head: "a b", new: false, tail: null, relation: "", k: 3, any: true }), "head=a+b&k=3&any=true");
});

test("a rule is read as a sentence", () => {
  assert.deepEqual(readRule("X speaks Y ← X borders Y, 0.26, 50 of 1,191"),
    { then: "X speaks Y", when: "X borders Y", held: "50", of: "1,191" });
  assert.equal(readRule("X speaks Y ← X borders Y")?.when, "X borders Y");
  assert.equal(readRule("a ← b ← c, 0.26, 5 of 9"), null);
});
