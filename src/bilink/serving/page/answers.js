// @ts-check
// Answers, new facts and single facts.

import { decisionOf } from "./decisions.js";
import { el, note, show, trouble, waiting } from "./dom.js";
import { count, percent, plural } from "./format.js";
import { listView } from "./listview.js";
import { cardLink, link, question } from "./links.js";
import { list } from "./rows.js";
import { asked } from "./state.js";
import { Refusal, get, isNew, labelOf, post } from "./store.js";

/** @typedef {import("./state.js").State} State */

/** @param {Record<string, string|null>} labels */
const words = ({ head, relation, tail }) => [head, relation, tail].flatMap((text, i) =>
  [i ? " " : null, text ? el("bdi", null, text) : el("b", { class: "open" }, "?")]);

/** @param {State} state */
async function labelsOf({ head, relation, tail }) {
  const [h, r, t] = await Promise.all([head && labelOf("entity", head), relation && labelOf("relation", relation), tail && labelOf("entity", tail)]);
  return { head: h, relation: r, tail: t };
}

/** Links that ask with a close name instead.  @param {State} state @param {any} error */
export function instead(state, error) {
  const known = new Set(error.suggestions.map((/** @type {any} */ row) => row.name));
  const wrong = (["head", "relation", "tail"]).find((role) => {
    const text = /** @type {any} */ (state)[role];
    return text && !known.has(text) && error.message.includes(text.slice(0, 30));
  });
  return (/** @type {any} */ row) => {
    const role = wrong ?? (error.message.includes("relation") ? "relation" : state.head ? "head" : "tail");
    return link({ [role]: row.name }, { class: "suggested" }, el("bdi", null, row.label));
  };
}

/** Which list is on the page, so that more rows of it join those that are there.  @param {State} state */
const listOf = ({ head, relation, tail, view, run }) => JSON.stringify([head, relation, tail, view, run]);

/** How the answers were found.  @param {any} found @param {State} state */
function under({ answers: rows, missing }, { from }) {
  if (!rows.length) return null;
  const sure = rows.some((/** @type {any} */ row) => row.probability !== null);
  return el("p", { class: "under" },
    `${plural(rows.length, "new answer")}${from ? ` from ${count(from + 1)} on` : ""}, by ${sure ? "probability" : "score"}`,
    sure && missing ? ` (if ${percent(missing)} of all facts are missing)` : null,
    !sure && " (higher is more likely; no probabilities yet)");
}

/** @param {HTMLElement & {arrange?: any}} place @param {State} state @param {AbortSignal} signal @returns {Promise<void>} */
export async function answers(place, state, signal) {
  const kind = asked(state);
  const slow = kind === "pair" || kind === "fact";
  const { head, relation, tail, k } = state;
  const params = { head, relation, tail, k, new: true, any_entity: state.any, offset: state.from };
  const grows = place.dataset.question === listOf(state);
  place.setAttribute("aria-busy", "true");
  if (!grows) show(place, waiting(slow ? "Going through all pairs" : "Asking"));
  try {
    const folds = !slow && !state.new && !state.from;
    const [found, labels, held] = await Promise.all([
      get("query", params, signal), labelsOf(state), folds ? known(state, params, signal) : null]);
    const rows = found.answers;
    const view = listView({
      rows, state, name: "answers", from: { path: "query", params }, asks: params,
      more: found.more ?? rows.length === k,
      draw: (kept) => list(kept, kind, state.from),
    });
    const before = grows ? place.querySelectorAll(".arranged .rows > li").length : null;
    show(place,
      el("h1", null, kind === "fact" ? "The most probable new facts" : words(labels)),
      under(found, state),
      rows.length ? view.node : note(el("p", null, "No new answers: all that fits is in the graph already.")),
      held,
      kind === "pair" && el("p", { class: "under" }, link({ card: `relation:${relation}` }, null, "About this relation")));
    place.arrange = view.arrange;
    place.dataset.question = listOf(state);
    focusRow(place, before);
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") return;
    delete place.dataset.question;
    show(place, el("h1", null, "This question has no answer"), trouble(error, () => answers(place, state, signal), instead(state, error)));
  } finally {
    if (!signal.aborted) place.setAttribute("aria-busy", "false");
  }
}

/** Go on at the first row that was added.  @param {HTMLElement} place @param {number|null} at */
function focusRow(place, at) {
  /** @type {HTMLElement|null|undefined} */
  const name = at ? place.querySelectorAll(".arranged .rows > li")[at]?.querySelector(".what a") : null;
  name?.focus();
}

/** How many facts answer the question; null where the server does not count them.
 * @param {State} state @param {AbortSignal} signal */
async function countKnown({ head, relation, tail }, signal) {
  if (!isNew()) return null;
  try {
    const found = await get("facts", { entity: head ?? tail, relation, side: head ? "tail" : "head", k: 1 }, signal);
    return found.count;
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}

/** What the graph knows already, folded.
 * @param {State} state @param {Record<string, unknown>} params @param {AbortSignal} signal */
async function known(state, params, signal) {
  const kind = asked(state);
  const { head, relation, k } = state;
  const [found, total] = await Promise.all([
    get("query", { ...params, k: Math.max(k, 30), new: false }, signal),
    kind === "relation" ? null : countKnown(state, signal),
  ]);
  const rows = found.answers.filter((/** @type {any} */ row) => row.known);
  const all = Math.max(total ?? 0, rows.length);
  if (!all) return null;
  return el("details", { class: "folded" },
    el("summary", null, plural(all, "known answer")),
    rows.length > 0 && list(rows, kind),
    all > rows.length && el("p", { class: "pager" },
      link({ view: "facts", head: head ?? state.tail, relation, side: head ? "tail" : "head" }, { class: "quiet" }, `All ${count(all)}`)));
}

// Nothing is left open: how likely is this one?
/** @param {HTMLElement} place @param {State} state @param {AbortSignal} signal */
export async function judge(place, state, signal) {
  show(place, waiting("Asking"));
  try {
    const { head, relation, tail } = state;
    const { scores: [found], missing } = await post("score", { triples: [[head, relation, tail]] }, signal);
    if (found.error) throw new Refusal(found.error.error ?? found.error, 404, found.error);
    show(place,
      el("h1", null, "How likely is this?"),
      el("p", { class: "under" }, found.known ? "The graph holds this fact." : "The graph does not hold this fact.",
        found.probability !== null && missing ? ` Its probability, if ${percent(missing)} of all facts are missing:` : null),
      list([{ ...found, rank: 1, decision: decisionOf(found) }], "fact", 0, { open: true }));
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") return;
    show(place, el("h1", null, "How likely is this?"), trouble(error, () => judge(place, state, signal), instead(state, error)));
  }
}

// The rest of a group of an entity's card.
/** @param {HTMLElement & {arrange?: any}} place @param {State} state @param {AbortSignal} signal */
export async function facts(place, state, signal) {
  const { head: name, relation, k, from } = state;
  const side = state.side === "head" ? "head" : "tail";
  const params = { entity: name, relation, side, k, offset: from };
  show(place, waiting());
  try {
    if (!name || !relation) throw new Refusal("Name an entity and a relation.", 400);
    const found = await get("facts", params, signal);
    const [label, verb] = await Promise.all([labelOf("entity", name), labelOf("relation", relation)]);
    const me = cardLink("entity", name, label);
    const view = listView({
      rows: found.entities, state, name: "facts", from: { path: "facts", params }, more: found.more, of: found.count,
      draw: (kept) => el("ol", { class: "rows plain", start: from + 1 }, kept.map((row, i) => el("li", { class: "known" },
        el("span", { class: "rank" }, count(from + i + 1)),
        el("span", { class: "what" }, cardLink("entity", row.name, row.label)),
        el("span", { class: "value" }, plural(row.facts, "fact"))))),
    });
    show(place,
      el("h1", null, side === "tail" ? [me, " ", el("bdi", null, verb), " …"] : ["… ", el("bdi", null, verb), " ", me]),
      el("p", { class: "under" }, `${plural(found.count, "fact")} of the graph. `,
        link(side === "tail" ? question(name, relation, null) : question(null, relation, name), null, "Which others are likely?")),
      view.node);
    place.arrange = view.arrange;
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "AbortError") show(place, el("h1", null, "Facts"), trouble(error, () => facts(place, state, signal), instead(state, error)));
  }
}

