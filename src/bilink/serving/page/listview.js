// @ts-check
// A list with what people do to lists: filter, sort, take away, go on.

import { announce, choice, download, el, quiet, show } from "./dom.js";
import { asCurl, asPython, asPythonRequest, count, csv, plural } from "./format.js";
import { arrange, relationsOf } from "./lists.js";
import { go, link } from "./links.js";
import { MOST, few } from "./state.js";
import { fullAddress } from "./store.js";

/** @typedef {import("./state.js").State} State */

const SHARES = [10, 25, 50, 75, 90];
let drawn = 0;

/** @type {{folder: string, token: boolean}} */
export const source = { folder: "runs/RUN", token: false };

/**
 * @param {Object} options
 * @param {any[]} options.rows
 * @param {(rows: any[]) => Node} options.draw
 * @param {State} options.state
 * @param {string} options.name Of the file.
 * @param {{path: string, params: Record<string, unknown>}} options.from The request that found the rows.
 * @param {any} [options.asks] The question, if the library can be asked.
 * @param {boolean} [options.more] Whether the server has more rows.
 * @param {number|null} [options.of] How many there are in all.
 * @param {Record<string, string>} [options.sorts]
 */
export function listView({ rows, draw, state, name, from, asks, more, of, sorts }) {
  const place = el("div", { class: "arranged" });
  const left = el("p", { class: "left under", hidden: true });
  const panel = el("div", { class: "copied", hidden: true });
  const chances = rows.some((row) => typeof row.probability === "number");
  const orders = { ...ordersOf(rows, chances), ...sorts };
  const relations = rows[0]?.relation_label !== undefined ? relationsOf(rows) : [];
  let wanted = state;
  function redraw() {
    const kept = arrange(rows, wanted);
    show(place, draw(kept));
    left.hidden = kept.length === rows.length;
    left.textContent = kept.length < rows.length ? `${count(kept.length)} of ${plural(rows.length, "row")} shown.` : "";
  }
  const change = (/** @type {Partial<State>} */ given) => {
    wanted = { ...wanted, ...given };
    redraw();
    go(given, true);
  };
  const box = el("input", { type: "search", "aria-label": "Filter these rows", placeholder: "filter", dir: "auto", maxlength: 200,
    oninput: () => change({ find: box.value || null }) });
  box.value = state.find ?? "";
  const ways = el("div", { class: "ways" },
    rows.length > 1 && [box,
      choice("sort by", Object.entries(orders), state.sort ?? "", (value) => change({ sort: value || null })),
      chances && choice("at least", [["0", "any"], ...SHARES.map((p) => /** @type {[string, string]} */ ([String(p), `${p} %`]))],
        String(state.least), (value) => change({ least: Number(value) })),
      relations.length > 1 && choice("relation", [["", "all"], ...relations], state.only ?? "", (value) => change({ only: value || null }))],
    el("span", { class: "take" },
      quiet("CSV", () => download(`${name}.csv`, csv(arrange(rows, wanted)), "text/csv;charset=utf-8"), { title: "Download these rows" }),
      quiet("Copy as Python", () => copy(panel, asks ? asPython(asks, source.folder) : asPythonRequest(fullAddress(from.path, from.params)))),
      quiet("Copy as curl", () => copy(panel, asCurl(fullAddress(from.path, from.params), source.token)))));
  const open = matchMedia("(min-width: 44.01rem)").matches || Boolean(state.find || state.sort || state.least || state.only);
  const node = el("div", { class: "list", id: `list-${++drawn}` },
    rows.length > 0 && el("details", { class: "listtools", open },
      el("summary", null, "Filter, sort, take away"), ways),
    panel, left, place, pager(state, rows.length, Boolean(more), of));
  redraw();
  return { node, arrange(/** @type {State} */ given) {
    if (["find", "sort", "least", "only"].every((key) => /** @type {any} */ (given)[key] === /** @type {any} */ (wanted)[key])) return;
    wanted = given;
    if (document.activeElement !== box) box.value = given.find ?? "";
    redraw();
  } };
}

/** @param {any[]} rows @param {boolean} chances */
const ordersOf = (rows, chances) => ({
  "": chances ? "probability" : "as found",
  name: "name",
  ...(rows.some((row) => row.facts !== undefined) ? { facts: "facts" } : {}),
});

/** Links to the rows before and after.
 * @param {State} state @param {number} shown @param {boolean} more @param {number|null} [of] */
export function pager(state, shown, more, of) {
  const step = few(state.view);
  const big = Math.max(step, Math.min(50, state.k));
  const grown = state.k + big <= MOST;
  const last = state.from + shown;
  const added = of == null ? big : Math.min(big, of - last);
  return (more || state.from > 0) && el("p", { class: "pager" },
    state.from > 0 && link({ from: Math.max(0, state.from - state.k) }, { class: "quiet" }, "Previous"),
    of != null && shown > 0 && el("span", { class: "under" }, `${count(state.from + 1)} to ${count(last)} of ${count(of)}`),
    more && link(grown ? { k: state.k + big } : { from: state.from + state.k }, { class: "quiet next" },
      grown ? `Show ${count(added)} more` : "Next"));
}

/** @param {HTMLElement} panel @param {string} text */
export async function copy(panel, text) {
  const code = el("pre", { tabindex: 0, "aria-label": "The command" }, text);
  const said = el("p", null, "");
  show(panel, el("div", { class: "head" }, said, quiet("×", () => { panel.hidden = true; }, { "aria-label": "Close this", class: "quiet shut" })), code);
  panel.hidden = false;
  try {
    await navigator.clipboard.writeText(text);
    said.textContent = "Copied to the clipboard.";
  } catch { // no permission, or not a secure address
    said.textContent = "Copy this:";
    getSelection()?.selectAllChildren(code);
  }
  announce(said.textContent);
}
