// Why: which members of an ensemble and which facts speak for an answer.

import { el, percent } from "./dom.js";

const sentence = ([head, relation, tail]) =>
  [head, " ", el("span", { class: "small" }, relation), " ", tail];

const facts = (title, rows) => rows?.length > 0 && [
  el("h3", null, title),
  el("ul", null, rows.map(({ fact, value }) => el("li", { class: "fact" },
    el("span", null, sentence(fact)), el("span", { class: "small" }, percent(Math.max(0, value)))))),
];

const members = (rows) => rows?.length > 0 && [
  el("h3", null, "Members"),
  el("div", { class: "stack" }, rows.map(({ name, share }, i) =>
    share >= 0.005 && el("i", { class: `c${i % 10}`, title: `${name}: ${percent(share)}`, style: { "flex-grow": share.toFixed(4) } }))),
  el("ul", { class: "key" }, rows.filter(({ share }) => share >= 0.005).map(({ name, share }, i) =>
    el("li", null, el("i", { class: `c${i % 10}` }), `${name} ${percent(share)}`))),
];

const paths = (rows) => rows?.length > 0 && [
  el("h3", null, "Ways from head to tail"),
  el("ul", null, rows.map((path) => el("li", { class: "fact" },
    el("span", null, path.map((fact, i) => [i > 0 && " · ", sentence(fact)]))))),
];

const rules = (rows) => rows?.length > 0 && [
  el("h3", null, "Rules that say so"),
  el("ul", null, rows.map(({ sentence: text, evidence }) => el("li", null,
    el("div", null, text),
    el("div", { class: "small" }, "since ", evidence.map((fact, i) => [i > 0 && " · ", sentence(fact)]))))),
];

const against = (rows) => rows?.length > 0 && [
  el("h3", null, "Rules that name another answer"),
  el("ul", null, rows.map(({ fact, rule }) => el("li", null,
    el("div", null, sentence(fact)), el("div", { class: "small" }, rule.sentence)))),
];

export function explanation({ members: of, rules: say, against: others, support, analogies, paths: ways, note }) {
  const parts = [
    rules(say), against(others), facts("Facts that hold it up", support), members(of), paths(ways), facts("Facts like it", analogies),
  ].filter(Boolean);
  return [
    parts.length ? parts : el("p", null, "Nothing in particular speaks for it."),
    note && el("p", { class: "small" }, note[0].toUpperCase() + note.slice(1) + "."),
  ];
}
