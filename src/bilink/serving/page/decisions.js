// @ts-check
// What was decided: kept by the server, shown by every row of the same triple.

import { $, announce, el, show } from "./dom.js";
import { count } from "./format.js";
import { keyOf } from "./lists.js";
import { link } from "./links.js";
import { forget, get, post } from "./store.js";

/** @typedef {"accept"|"reject"|"unsure"} Decision */
/** @typedef {{head: string, relation: string, tail: string, [more: string]: any}} Triple */

/** @type {[Decision, string, string, string, string][]} */
export const KINDS = [
  ["accept", "✓", "Accept", "A", "accepted"],
  ["reject", "✗", "Reject", "R", "rejected"],
  ["unsure", "?", "Unsure", "U", "unsure"],
];
const PAST = Object.fromEntries(KINDS.map(([kind, , , , past]) => [kind, past]));

export let reviewing = false;
/** @type {Record<string, number>} */
let counts = { accept: 0, reject: 0, unsure: 0 };
/** @type {Map<string, Decision|null>} */
const made = new Map();
/** What this page changed and undo takes back, oldest first.  @type {{key: string, words: string}[]} */
const steps = [];
let before = false; // whether there were decisions before this page was opened
/** @type {Promise<unknown>} */
let line = Promise.resolve(); // changes reach the server in their order
/** @type {Set<() => void>} */
const watchers = new Set();

/** @param {any} info */
export function startReview(info) {
  reviewing = Boolean(info.review);
  if (info.decisions) counts = { ...counts, ...info.decisions };
  before = Object.values(counts).some(Boolean);
  drawBar();
}

export const tally = () => counts;

/** @param {() => void} f @returns {() => void} What ends it. */
export const watch = (f) => { watchers.add(f); return () => watchers.delete(f); };

/** @param {Triple} row @returns {Decision|null} */
export const decisionOf = (row) => made.get(keyOf(row)) ?? (made.has(keyOf(row)) ? null : row.decision ?? null);

/** @param {Triple} row */
export const nameOf = (row) =>
  [row.head_label ?? row.head, row.relation_label ?? row.relation, row.tail_label ?? row.tail].join(" ");

/** Decide, or with null take a decision back.
 * @param {[Triple, Decision|null][]} decided @param {string} [reason] */
export function decide(decided, reason) {
  const old = decided.map(([row]) => decisionOf(row));
  for (const [row, decision] of decided) made.set(keyOf(row), decision);
  const own = decided.map(([row, decision]) => ({ key: keyOf(row), words: `${decision ?? "withdraw"} “${nameOf(row)}”` }));
  steps.push(...own); // the server takes them back one by one
  changed();
  line = line.then(async () => {
    const given = decided.map(([{ head, relation, tail }, decision]) => ({ head, relation, tail, decision, ...(reason === undefined ? {} : { reason }) }));
    const found = await post("decisions", { decisions: given });
    counts = found.counts;
    const [row, decision] = decided[0];
    announce(`${decision ? PAST[decision] : "withdrawn"}: ${nameOf(row)}`);
    changed();
  }).catch((error) => {
    decided.forEach(([row], i) => made.set(keyOf(row), old[i]));
    for (const step of own) steps.splice(steps.indexOf(step), 1);
    changed(`This was not kept: ${error.message}`);
  });
  return line;
}

/** Take the last change back. */
export function undo() {
  if (!steps.length && !before) return line;
  line = line.then(async () => {
    const found = await post("decisions/undo", {});
    const key = keyOf(found.triple);
    const at = steps.findLastIndex((step) => step.key === key); // none, if it was another window's
    const words = at < 0 ? `“${nameOf(found.triple)}”` : steps.splice(at, 1)[0].words;
    made.set(key, found.decision?.decision ?? null);
    counts = found.counts;
    announce(`Taken back: ${words}`);
    changed();
  }).catch((error) => changed(`This was not taken back: ${error.message}`));
  return line;
}

/** What was decided in another window. */
export async function sync() {
  if (!reviewing) return;
  const found = await get("decisions", { k: 200 });
  for (const row of found.decisions) made.set(keyOf(row), row.decision);
  counts = found.counts;
  changed();
}

/** Rows and counts anew, after an import or an update. */
export async function refresh() {
  made.clear();
  forget();
  const found = await get("decisions", { k: 1 });
  counts = found.counts;
  before = found.count > 0;
  changed();
}

/** @param {string} [problem] */
function changed(problem) {
  for (const group of document.querySelectorAll(".decide")) {
    const row = rows.get(group);
    if (row) mark(group, row);
  }
  drawBar(problem);
  for (const f of watchers) f();
}

/** @type {WeakMap<Element, Triple>} */
const rows = new WeakMap();

/** @param {Element} group @param {Triple} row */
function mark(group, row) {
  const decision = decisionOf(row);
  for (const button of group.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.dataset.kind === decision));
  }
  const item = group.closest("li");
  if (item) {
    if (decision) item.dataset.decision = decision;
    else delete item.dataset.decision;
  }
}

/** Three buttons that decide on a triple.
 * @param {Triple} row @param {{words?: boolean}} [options] */
export function decideButtons(row, { words = false } = {}) {
  if (!reviewing) return null;
  const group = el("span", { class: "decide", role: "group", "aria-label": `Decide on ${nameOf(row)}` },
    KINDS.map(([kind, sign, word, key]) => el("button", {
      type: "button", "data-kind": kind, "aria-label": word, title: `${word} (${key})`, "aria-keyshortcuts": key,
      onclick: () => decide([[row, decisionOf(row) === kind ? null : kind]]),
    }, el("span", { "aria-hidden": true }, sign), words && el("span", { class: "word" }, word))));
  rows.set(group, row);
  queueMicrotask(() => mark(group, row));
  mark(group, row);
  return group;
}

/** "12 decided: 7 accepted, 4 rejected, 1 unsure", with a bar. */
export function progress() {
  const all = counts.accept + counts.reject + counts.unsure;
  return el("p", { class: "progress" },
    all > 0 && el("span", { class: "stack", "aria-hidden": true }, KINDS.map(([kind]) =>
      counts[kind] > 0 && el("i", { class: kind, style: { "flex-grow": counts[kind] } }))),
    el("span", null, all ? [el("b", null, count(all)), " decided: ",
      KINDS.map(([kind, , , , past], i) => [i > 0 && ", ", `${count(counts[kind])} ${past}`])] : "Nothing is decided yet."));
}

/** The last change and how to take it back, at the foot of the page.  @param {string} [problem] */
export function drawBar(problem) {
  const bar = $("reviewbar");
  const inReview = document.body.dataset.view === "review";
  const last = steps.at(-1);
  bar.hidden = !reviewing || !(last || problem || (before && inReview));
  if (bar.hidden) return;
  const held = bar.contains(document.activeElement);
  show(bar,
    problem ? el("p", { class: "problem", role: "alert" }, problem) : !inReview && progress(),
    (last || before) && el("button", { type: "button", class: "quiet undo", title: "Undo (Z)", "aria-keyshortcuts": "Z Control+Z", onclick: undo },
      "Undo", el("span", { class: "what", dir: "auto" }, last ? `: ${last.words}` : " the last change")),
    !inReview && link({ view: "review", part: null }, { class: "quiet" }, "Review"));
  if (held) bar.querySelector("button")?.focus();
}
