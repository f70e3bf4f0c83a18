// @ts-check
// Triples as rows: rank, names, bar, probability, what was decided, and why.

import { decideButtons } from "./decisions.js";
import { el, show, trouble, waiting } from "./dom.js";
import { explanation } from "./explanation.js";
import { count, percent } from "./format.js";
import { lengths } from "./lists.js";
import { cardLink } from "./links.js";
import { get } from "./store.js";

/** @typedef {import("./lists.js").Row} Row */

/** The triple of each row on the page.  @type {WeakMap<Element, any>} */
export const rowOf = new WeakMap();

// A training fact has no probability, since the model has seen it: "–" where others have one.
/** @param {Row} row @param {number} length @param {boolean} [among] Rows with probabilities. */
export function bar(row, length, among = false) {
  const sure = row.probability !== null;
  const words = row.probability !== null ? percent(row.probability) : among ? "–" : row.score?.toFixed(2) ?? "–";
  return [
    el("span", { class: `bar${sure ? "" : " score"}`, "aria-hidden": true },
      el("i", { style: { width: `${(100 * length).toFixed(1)}%` } })),
    el("span", { class: "value", title: sure ? `probability that it is true${row.known ? ", if the graph did not hold it" : ""}` : among ? "the model was trained on this fact" : "score: higher is more likely" }, words),
  ];
}

/** What a row names: the answer, or the whole fact.  @param {Row} row @param {string} kind */
export function subject(row, kind) {
  if (kind === "tail") return cardLink("entity", row.tail, row.tail_label);
  if (kind === "head") return cardLink("entity", row.head, row.head_label);
  if (kind === "relation") return cardLink("relation", row.relation, row.relation_label);
  const verb = kind === "pair" ? el("span", { class: "verb", "aria-hidden": true }, "–")
    : el("span", { class: "verb" }, cardLink("relation", row.relation, row.relation_label));
  return [cardLink("entity", row.head, row.head_label), verb, cardLink("entity", row.tail, row.tail_label)];
}

/** A button and the place that it opens, with the reasons for a triple.
 * @param {{head: string, relation: string, tail: string}} row @param {boolean} [open] */
export function why(row, open = false) {
  const place = el("div", { class: "why", hidden: true });
  const button = el("button", { type: "button", class: "quiet", "aria-expanded": "false", title: "Why? (W)", onclick: toggle }, "why");
  let done = false;
  async function toggle() {
    place.hidden = !place.hidden;
    button.setAttribute("aria-expanded", String(!place.hidden));
    if (place.hidden || done) return;
    done = true;
    show(place, waiting("Looking for reasons"));
    try {
      const { head, relation, tail } = row;
      show(place, explanation(await get("explain", { head, relation, tail })));
    } catch (error) {
      done = false;
      show(place, trouble(error));
    }
  }
  if (open) toggle();
  return { button, place };
}

/** @param {Row} row
 *  @param {{kind: string, at: number, length: number, among: boolean, open?: boolean, words?: boolean, below?: unknown}} options */
export function item(row, { kind, at, length, among, open = false, words = false, below = null }) {
  const { button, place } = why(row, open);
  const line = el("li", { class: row.known ? "known" : "new" },
    el("span", { class: "rank" }, count(at)),
    el("span", { class: "what" }, subject(row, kind)),
    bar(row, length, among),
    el("span", { class: "mark", title: row.known ? "the graph holds this" : "not in the graph" }, row.known ? "known" : "new"),
    el("span", { class: "acts" }, decideButtons(row, { words }), button),
    below, place);
  rowOf.set(line, row);
  if (row.decision) line.dataset.decision = row.decision;
  return line;
}

/** @param {Row[]} rows @param {string} kind @param {number} [from] @param {{open?: boolean, words?: boolean}} [options] */
export function list(rows, kind, from = 0, options = {}) {
  const wide = lengths(rows);
  const among = rows.some((row) => row.probability !== null);
  return el("ol", { class: `rows ${kind}`, start: from + 1 }, rows.map((row, i) =>
    item(row, { kind, at: from + i + 1, length: wide[i], among, ...options })));
}
