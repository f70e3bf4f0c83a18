// @ts-check
// Facts of the graph that look wrong.

import { decide, decideButtons, reviewing } from "./decisions.js";
import { el, note, quiet, show, trouble, waiting } from "./dom.js";
import { count, percent, plural } from "./format.js";
import { listView } from "./listview.js";
import { cardLink, link } from "./links.js";
import { bar, rowOf, subject, why } from "./rows.js";
import { get, labelOf } from "./store.js";

/** @param {any} row @param {number} [at] */
export function doubtRow(row, at) {
  const { button, place } = why(row);
  const line = el("li", { class: "doubt" },
    el("span", { class: "rank" }, at === undefined ? null : count(at)),
    el("span", { class: "what" }, subject(row, "fact")),
    bar(row, row.probability ?? 0),
    el("span", { class: "acts" }, decideButtons(row), button),
    replacement(row), place);
  rowOf.set(line, row);
  return line;
}

/** What would stand there better, if anything would.  @param {any} row */
function replacement(row) {
  const other = row.suggestion;
  if (!other || (other.probability !== null && other.probability <= (row.probability ?? 0))) return null;
  const better = { ...row, [row.side]: other.name, [`${row.side}_label`]: other.label, decision: null };
  return el("p", { class: "fix" }, "perhaps ", cardLink("entity", other.name, other.label),
    other.probability !== null && ` (${percent(other.probability)})`, " in place of ", el("bdi", null, row[`${row.side}_label`]), "? ",
    reviewing && quiet("Replace", () => decide([[row, "reject"], [better, "accept"]]),
      { title: "Reject this fact and accept the other" }));
}

/** @param {HTMLElement & {arrange?: any}} place @param {import("./state.js").State} state @param {AbortSignal} signal */
export async function doubts(place, state, signal) {
  if (!place.querySelector(".doubts")) show(place, waiting());
  try {
    const params = { relation: state.relation, k: state.k, offset: state.from };
    const found = await get("audit", params, signal);
    const about = state.relation && await labelOf("relation", state.relation);
    const title = el("h1", null, "Facts that look wrong", about && [": ", el("bdi", null, about)]);
    if (!found.audited) {
      show(place, title, note(
        el("p", null, "Nobody has looked for doubtful facts in this run yet. This command does: it scores each fact by models that have not seen it."),
        el("pre", null, found.command),
        el("p", null, "Then start the explorer again.")));
      return;
    }
    const at = new Map(found.doubts.map((/** @type {any} */ row, /** @type {number} */ i) => [row, state.from + i + 1]));
    const rowsOf = (/** @type {any[]} */ rows) => el("ol", { class: "rows doubts" }, rows.map((row) => doubtRow(row, at.get(row))));
    const view = listView({
      rows: found.doubts, state, name: "doubts", from: { path: "audit", params },
      more: found.more ?? found.doubts.length === state.k, of: found.count ?? null,
      draw: (kept) => {
        const wrong = kept.filter((row) => row.probability === null || row.probability < 0.5);
        const rest = kept.filter((row) => !wrong.includes(row));
        return el("div", null,
          wrong.length > 0 && rowsOf(wrong),
          rest.length > 0 && el("details", { class: "folded", open: !wrong.length },
            el("summary", null, `${plural(rest.length, "fact")} that ${rest.length === 1 ? "is" : "are"} more likely right than wrong, but not sure`), rowsOf(rest)));
      },
    });
    show(place, title,
      el("p", { class: "under" }, "Each was judged by a model that had not seen it; the number is the probability that it is true. A doubt is a reason to look, not a proof. ",
        about && link({ relation: null }, null, "All relations")),
      found.doubts.length ? view.node : note(el("p", null, "No doubts here.")));
    place.arrange = view.arrange;
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "AbortError") {
      show(place, el("h1", null, "Facts that look wrong"), trouble(error, () => doubts(place, state, signal), (/** @type {any} */ row) => link({ relation: row.name }, null, row.label)));
    }
  }
}
