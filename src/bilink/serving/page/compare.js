// @ts-check
// One question, and what several runs answer.

import { decideButtons } from "./decisions.js";
import { el, note, show, trouble, waiting } from "./dom.js";
import { count, percent, plural, sentence } from "./format.js";
import { instead } from "./answers.js";
import { link } from "./links.js";
import { listView } from "./listview.js";
import { rowOf, subject, why } from "./rows.js";
import { asked } from "./state.js";
import { get, labelOf } from "./store.js";

/** @param {any} answer @param {boolean} chances */
function cell(answer, chances) {
  if (!answer) return el("td", { class: "none" }, el("span", { "aria-label": "not among its answers" }, "–"));
  const sure = typeof answer.probability === "number";
  return el("td", null,
    el("span", { class: "bar", "aria-hidden": true }, el("i", { style: { width: `${sure ? 100 * answer.probability : 0}%` } })),
    el("span", { class: "value" }, sure ? percent(answer.probability) : chances ? "–" : answer.score?.toFixed(2) ?? "–"),
    el("span", { class: "small" }, answer.rank ? ` · no. ${count(answer.rank)}` : " · far behind"));
}

/** @param {HTMLElement & {arrange?: any}} place @param {import("./state.js").State} state @param {any} info @param {AbortSignal} signal */
export async function compare(place, state, info, signal) {
  const { head, relation, tail, k } = state;
  const filled = [head, relation, tail].filter(Boolean).length;
  const title = el("h1", null, "Compare runs");
  const name = new Map((info.runs ?? []).map((/** @type {any} */ run) => [run.id, run.name]));
  if (name.size < 2) {
    show(place, title, note(el("p", null, "There is one run only. Give several to compare them:"), el("pre", null, "bilink serve RUN RUN")));
    return;
  }
  if (filled < 2 || filled === 3) {
    show(place, title, el("p", { class: "under" }, `Ask a question with one box open; ${[...name.values()].join(", ")} will answer it side by side, disagreements first.`),
      el("div", { class: "tries start" }, info.examples.map((/** @type {any} */ e) =>
        link({ view: "compare", head: e.head.name, relation: e.relation.name, tail: null }, { class: "try" },
          el("bdi", null, e.head.label), " ", el("bdi", null, e.relation.label), " ", el("b", { class: "open" }, "?")))));
    return;
  }
  show(place, waiting("Asking all runs"));
  try {
    const params = { head, relation, tail, k };
    const [found, h, r, t] = await Promise.all([get("compare", params, signal),
      head && labelOf("entity", head), relation && labelOf("relation", relation), tail && labelOf("entity", tail)]);
    const kind = asked(state);
    const chances = found.rows.some((/** @type {any} */ row) => Object.values(row.answers).some((a) => typeof a?.probability === "number"));
    const view = listView({
      rows: found.rows, state, name: "comparison", from: { path: "compare", params }, sorts: { "": "disagreement" }, more: k < 100 && found.rows.length >= k,
      draw: (rows) => el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Comparison" }, el("table", { class: "compare" },
        el("thead", null, el("tr", null, el("th", { scope: "col" }, "answer"), found.runs.map((/** @type {string} */ id) =>
          el("th", { scope: "col" }, el("bdi", null, name.get(id) ?? id))), el("th", { scope: "col" }, el("span", { class: "sr" }, "more")))),
        el("tbody", null, rows.map((row) => {
          const { button, place: reasons } = why(row);
          const acts = el("div", { class: "acts" }, row.known && el("span", { class: "mark" }, "known"), decideButtons(row), button);
          const line = el("tr", { class: row.known ? "known" : "new" },
            el("th", { scope: "row", class: "what" }, subject(row, kind)),
            found.runs.map((/** @type {string} */ id) => cell(row.answers[id], chances)), el("td", null, acts, reasons));
          rowOf.set(line, row);
          return line;
        })))),
    });
    show(place,
      el("h1", null, [h, r, t].map((text, i) => [i > 0 && " ", text ? el("bdi", null, text) : el("b", { class: "open" }, "?")])),
      el("p", { class: "under" }, `${plural(found.rows.length, "answer")} of ${plural(found.runs.length, "run")}, disagreements first. `,
        link({ view: "ask", head, relation, tail }, null, "Ask one run")),
      found.note && el("p", { class: "under" }, sentence(found.note)),
      view.node);
    place.arrange = view.arrange;
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "AbortError") show(place, title, trouble(error, null, instead(state, error)));
  }
}
