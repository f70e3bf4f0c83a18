// @ts-check
// Why: the rules, facts and members of an ensemble that speak for an answer, and those against it.

import { el } from "./dom.js";
import { count, percent, readRule, sentence } from "./format.js";
import { cardLink, link, question } from "./links.js";

/** @typedef {[string, string, string] | {head: string, relation: string, tail: string, head_label?: string, relation_label?: string, tail_label?: string}} Fact */

/** @param {Fact} fact */
function named(fact) {
  if (Array.isArray(fact)) {
    const [head, relation, tail] = fact;
    return { head, relation, tail, labels: fact };
  }
  const { head, relation, tail } = fact;
  return { head, relation, tail, labels: [fact.head_label ?? head, fact.relation_label ?? relation, fact.tail_label ?? tail] };
}

const arrow = (/** @type {string} */ relation, /** @type {string} */ label, back = false) =>
  el("span", { class: `step${back ? " back" : ""}` }, cardLink("relation", relation, label));

/** Facts as one small path, turned so that each begins where the last ended.
 * @param {Fact[]} facts @param {string} [start] Where it begins, as a label. */
export function path(facts, start) {
  if (!facts.length) return null;
  const steps = facts.map(named);
  const ends = (/** @type {any} */ step) => [step.labels[0], step.labels[2]];
  let at = start !== undefined && ends(steps[0]).includes(start) ? start
    : steps.length > 1 && ends(steps[1]).includes(steps[0].labels[0]) ? steps[0].labels[2] : steps[0].labels[0];
  /** @type {unknown[]} */
  const parts = [];
  let whole = true;
  steps.forEach((step, i) => {
    const [head, relation, tail] = step.labels;
    if (!ends(step).includes(at)) { whole = false; at = head; }
    const back = at !== head;
    if (!i || !whole) parts.push(!whole && i > 0 ? " · " : null, cardLink("entity", back ? step.tail : step.head, back ? tail : head));
    whole = true;
    parts.push(arrow(step.relation, relation, back), cardLink("entity", back ? step.head : step.tail, back ? head : tail));
    at = back ? head : tail;
  });
  return el("span", { class: "path", dir: "ltr" }, parts);
}

/** A fact as a link to the question how likely it is.  @param {Fact} fact */
const factLink = (fact) => {
  const { head, relation, tail } = named(fact);
  return link(question(head, relation, tail), { class: "more", title: "How likely is it?" }, "judge");
};

/** @param {any} rule @param {string} start Where its evidence begins. */
function ruleLine({ sentence: text, confidence, evidence }, start) {
  const rule = readRule(text);
  return el("li", { class: "rule" },
    el("p", { dir: "auto" }, rule ? ["If ", rule.when, ", then ", rule.then, "."] : text),
    el("p", { class: "small" }, rule?.of ? `It holds in ${rule.held} of ${rule.of} cases: ${percent(confidence)} sure.` : `${percent(confidence)} sure.`),
    evidence.length > 0 && el("p", { class: "evidence" }, el("span", { class: "small" }, "Here: "), path(evidence, start)));
}

/** @param {string} title @param {unknown} content @param {string} [under] */
const part = (title, content, under) => content &&
  el("section", null, el("h3", null, title), under && el("p", { class: "small" }, under), content);

/** @param {any[]|undefined} rows @param {(value: number) => string} words */
const facts = (rows, words) => rows?.length && el("ul", null, rows.map(({ fact, value }) => el("li", { class: "fact" },
  path([fact]), el("span", { class: "share small" }, words(Math.max(0, value ?? 0))))));

/** @param {any[]|undefined} rows */
const members = (rows) => rows?.length && [
  el("div", { class: "stack", "aria-hidden": true }, rows.map(({ name, share }, i) =>
    share >= 0.005 && el("i", { class: `c${i % 10}`, title: `${name}: ${percent(share)}`, style: { "flex-grow": share.toFixed(4) } }))),
  el("ul", { class: "key" }, rows.filter(({ share }) => share >= 0.005).map(({ name, share }, i) =>
    el("li", null, el("i", { class: `c${i % 10}` }), `${name} ${percent(share)}`))),
];

/** @param {any} found */
function against({ against: others, ranks, known, head_label: head, relation_label: relation, tail_label: tail }) {
  const parts = [];
  if (others?.length) {
    parts.push(part("Rules that name another answer", el("ul", null, others.map((/** @type {any} */ { fact, rule }) => {
      const read = readRule(rule.sentence);
      return el("li", { class: "rule" },
        el("p", null, path([fact]), " ", factLink(fact)),
        el("p", { class: "small", dir: "auto" }, read?.of
          ? `If ${read.when}: ${read.held} of ${read.of} cases, ${percent(rule.confidence)} sure.` : rule.sentence));
    }))));
  }
  const behind = Object.entries(ranks ?? {}).filter(([, rank]) => rank > 1);
  if (behind.length) {
    parts.push(part(known ? "Its place among all entities" : "More likely answers",
      el("ul", null, behind.map(([side, rank]) => el("li", null,
        el("bdi", null, side === "head" ? head : tail), ` is number ${count(Math.round(rank))} where “`,
        side === "head" ? "?" : el("bdi", null, head), " ", el("bdi", null, relation), " ", side === "tail" ? "?" : el("bdi", null, tail), "” is asked.")))));
  }
  return parts;
}

/** @param {any} found */
export function explanation(found) {
  const { members: of, rules, support, analogies, paths, note, head_label: head } = found;
  const pro = [
    part("Rules that say so", rules?.length && el("ul", null, rules.map((/** @type {any} */ rule) => ruleLine(rule, head)))),
    part("Facts that hold it up", facts(support, (value) => `${percent(value)} of the support`),
      "How much training on each pulls the same way."),
    part("Ways from head to tail", paths?.length && el("ul", null, paths.map((/** @type {Fact[]} */ way) => el("li", null, path(way, head))))),
    part("Facts like it", facts(analogies, (value) => `${percent(value)} alike`)),
    part("Who says so", members(of), "Each member's share of the score."),
  ].filter(Boolean);
  const contra = against(found);
  return [
    el("div", { class: "reasons" },
      el("div", { class: "for" }, el("h2", null, "For"),
        pro.length ? pro : el("p", null, "Nothing in particular speaks for it.")),
      el("div", { class: "against" }, el("h2", null, "Against"),
        contra.length ? contra : el("p", null, "No rule names another answer."))),
    note && el("p", { class: "small" }, `${sentence(note)}.`),
  ];
}
