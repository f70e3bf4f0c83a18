// @ts-check
// What is known about one entity or one relation.

import { doubtRow } from "./doubts.js";
import { instead } from "./answers.js";
import { el, show, svg, trouble, waiting } from "./dom.js";
import { count, percent, plural } from "./format.js";
import { closeCard } from "./keys.js";
import { cardLink, commas, link, now, question } from "./links.js";
import { neighbourhood } from "./neighbourhood.js";
import { get, learn } from "./store.js";

/** @typedef {{name: string, label: string, facts: number, [more: string]: any}} Named */

/** @param {string} kind @param {Named} row @param {unknown} extra @param {boolean} alone Not in the column at the side. */
const heading = (kind, row, extra, alone) => [
  !alone && el("button", { type: "button", class: "close", "aria-label": "Close", title: "Close (Esc)", onclick: closeCard }, "×"),
  el("p", { class: "kind" }, kind),
  el(alone ? "h1" : "h2", { tabindex: -1 }, el("bdi", null, row.label)),
  row.name !== row.label && el("p", { class: "id", dir: "auto" }, row.name),
  el("p", { class: "under" }, extra),
];

/** @param {string} title @param {...unknown} content */
const section = (title, ...content) => el("section", null, el("h3", null, title), ...content);

/** Load a part of a card into its place; a part that fails leaves the others alone.
 * @param {Element} host @param {() => Promise<unknown>} work */
function later(host, work) {
  const place = el("div", null, waiting());
  work().then((content) => show(place, content)).catch((error) => {
    if (error.name !== "AbortError") show(place, trouble(error));
  });
  host.append(place);
  return place;
}

/** @param {HTMLElement} place @param {string} what @param {AbortSignal} signal @returns {Promise<void>} */
export async function card(place, what, signal) {
  const cut = what.indexOf(":");
  const kind = what.slice(0, cut) === "relation" ? "relation" : "entity", name = what.slice(cut + 1);
  const alone = place.id === "answers";
  place.hidden = false;
  place.setAttribute("aria-busy", "true");
  show(place, waiting());
  try {
    const found = await get(kind, { name }, signal);
    learn(kind, found);
    show(place, ...(kind === "relation" ? await relation(found, alone) : entity(found, alone, signal)));
    if (found.pending) complete(place, name, alone, signal, Boolean(found.theory));
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") return;
    const again = () => card(place, what, signal);
    const other = (/** @type {Named} */ row) => (alone ? instead(now(), error)(row)
      : link({ card: `${kind}:${row.name}` }, { class: "suggested" }, el("bdi", null, row.label)));
    show(place, heading(kind, { label: name, name, facts: 0 }, "", alone), trouble(error, again, other));
  } finally {
    if (!signal.aborted) place.setAttribute("aria-busy", "false");
  }
}

/** Show the rest of a relation's card when the server has it: first the theory, then all of it.
 * @param {HTMLElement} place @param {string} name @param {boolean} alone @param {AbortSignal} signal
 * @param {boolean} has_theory */
async function complete(place, name, alone, signal, has_theory) {
  for (let wait = 500; !signal.aborted; wait = Math.min(5000, 1.5 * wait)) {
    await new Promise((go_on) => { setTimeout(go_on, wait); });
    if (signal.aborted) return;
    try {
      const found = await get("relation", { name }, signal, true);
      if (signal.aborted || (found.pending && (has_theory || !found.theory))) continue;
      has_theory = true;
      const held = place.contains(document.activeElement);
      show(place, ...await relation(found, alone));
      if (held) place.querySelector("h2")?.focus();
      if (!found.pending) return;
    } catch { return; } // what is there already will do
  }
}

/** @param {Named} me @param {any} group */
function group(me, { relation: r, side, count: n, entities }) {
  const ask = side === "head" ? question(null, r.name, me.name) : question(me.name, r.name, null);
  const name = cardLink("relation", r.name, r.label);
  const verb = { tail: [name, " →"], head: ["← ", name], both: [name, " ↔"] }[/** @type {string} */ (side)];
  const rest = n - entities.length;
  return el("div", { class: "group" },
    el("p", { class: "verb" }, verb, el("span", { class: "facts" }, count(n)),
      link(ask, { class: "likely", "aria-label": `Likely others: ${r.label}` }, "likely others")),
    el("p", { class: "names" },
      commas(entities.map((/** @type {Named} */ other) => cardLink("entity", other.name, other.label))),
      rest > 0 && [" and ", link({ view: "facts", head: me.name, relation: r.name, side: side === "head" ? "head" : "tail" }, { class: "more" }, `${count(rest)} more`)]));
}

// A relation whose facts hold both ways is told once.
/** @param {any[]} groups */
function merged(groups) {
  const key = (/** @type {any} */ { relation: r, count: n, entities }) => JSON.stringify([r.name, n, entities.map((/** @type {Named} */ e) => e.name)]);
  const into = new Set(groups.filter((g) => g.side === "head").map(key));
  const out = new Set(groups.filter((g) => g.side === "tail").map(key));
  return groups
    .filter((g) => g.side === "tail" || !out.has(key(g)))
    .map((g) => (g.side === "tail" && into.has(key(g)) ? { ...g, side: "both" } : g));
}

/** @param {any} found @param {boolean} alone @param {AbortSignal} signal */
function entity(found, alone, signal) {
  const part = (/** @type {string} */ title, /** @type {unknown[]} */ ...content) =>
    el("section", null, el(alone ? "h2" : "h3", { class: "part" }, title), ...content);
  const drawing = part("Neighbourhood");
  later(drawing, async () => neighbourhood(await get("neighbourhood", { name: found.name, size: 20 }, signal), { signal }));
  const alike = part("Most alike");
  later(alike, async () => {
    const { neighbours } = await get("neighbours", { name: found.name, k: 6 }, signal);
    return el("p", { class: "names" }, commas(neighbours.map((/** @type {Named} */ row) => cardLink("entity", row.name, row.label))));
  });
  const doubtful = found.doubts?.length > 0
    && part("In doubt", el("ol", { class: "rows doubts" }, found.doubts.map((/** @type {any} */ row) => doubtRow(row))));
  return [
    ...heading("entity", found, [plural(found.facts, "fact"), ". ", link({ view: "graph", head: found.name }, null, "Its neighbourhood, larger")], alone),
    el("div", { class: "parts" },
      el("div", null, drawing, alike),
      el("div", null, doubtful,
        found.groups.length
          ? part("Facts", merged(found.groups).map((g) => group(found, g)))
          : el("p", { class: "under" }, "The graph holds no facts about it."))),
  ];
}

/** @type {Record<string, string>} */
const CATEGORIES = {
  "1-1": "one head, one tail", "1-N": "one head, many tails",
  "N-1": "many heads, one tail", "N-N": "many heads, many tails",
};

/** @param {any} found */
function figures(found) {
  const rows = [
    ["Category", found.category ? `${found.category}: ${CATEGORIES[found.category]}` : "–"],
    ["Facts", `${count(found.train)} to learn from, ${count(found.valid + found.test)} held out`],
    ["Heads", `${count(found.heads)}, each with ${found.tails_per_head?.toFixed(1) ?? "–"} tails`],
    ["Tails", `${count(found.tails)}, each with ${found.heads_per_tail?.toFixed(1) ?? "–"} heads`],
    ["Symmetric", found.symmetry === null ? "–" : `${found.symmetry === 1 ? "all" : found.symmetry === 0 ? "none" : percent(found.symmetry)} of its facts hold both ways`],
  ];
  if (found.reflexivity) rows.push(["Reflexive", `${percent(found.reflexivity)} of its facts`]);
  return el("dl", { class: "figures" }, rows.map(([term, value]) => [el("dt", null, term), el("dd", null, value)]));
}

/** @param {any} theory */
function verdict(theory) {
  const lines = [];
  const sentence = (/** @type {string} */ name, /** @type {number} */ lost, least = "") => (lost
    ? el("li", { class: "lost" }, el("b", null, name), ` must lose ${least}${count(lost)} of ${count(theory.facts)} facts, whatever its size`)
    : el("li", { class: "held" }, el("b", null, name), ": nothing rules out that it holds all facts"));
  lines.push(sentence("DistMult", theory.lost_by_distmult));
  lines.push(sentence("TransE", theory.lost_by_transe, "at least "));
  const rank = theory.rounding_rank;
  lines.push(rank
    ? el("li", { class: "held" }, el("b", null, "RESCAL, ComplEx, HolE"), ` can hold all: rounding rank ${rank[0] === rank[1] ? rank[0] : `${rank[0]} to ${rank[1]}`}`)
    : el("li", { class: "held" }, el("b", null, "RESCAL, ComplEx, HolE"), " can hold all at some size; “bilink theory describe” finds it"));
  return el("ul", { class: "verdict" }, lines);
}

/** @param {{said: number[], true: number[], count: number[], error: number|null}} calibration */
function reliability({ said, true: held, count: n, error }) {
  const most = Math.max(...n, 1);
  const x = (/** @type {number} */ p) => 20 + 120 * p, y = (/** @type {number} */ p) => 130 - 120 * p;
  return el("figure", { class: "reliability" },
    svg("svg", { viewBox: "0 0 150 150", role: "img", "aria-label": "Said probability against the share that is true" },
      svg("path", { class: "frame", d: "M20 10V130H140" }),
      svg("path", { class: "ideal", d: `M${x(0)} ${y(0)}L${x(1)} ${y(1)}` }),
      svg("path", { class: "found", d: said.map((p, i) => `${i ? "L" : "M"}${x(p)} ${y(held[i])}`).join("") }),
      said.map((p, i) => svg("circle", { cx: x(p), cy: y(held[i]), r: 1.5 + 3.5 * Math.sqrt(n[i] / most) },
        svg("title", null, `said ${percent(p)}, true ${percent(held[i])} (${count(n[i])})`))),
      svg("text", { x: 80, y: 146, "text-anchor": "middle" }, "said"),
      svg("text", { x: 10, y: 70, "text-anchor": "middle", transform: "rotate(-90 10 70)" }, "true")),
    el("figcaption", null, error === null ? "" : `On average ${percent(error)} off.`));
}

/** @param {any} weights */
async function shares(weights) {
  const { members } = await get("weights");
  const side = (/** @type {string} */ name) => el("div", { class: "shares" },
    el("span", null, `asked for the ${name}`),
    el("div", { class: "stack" }, weights[name].map((/** @type {number} */ w, /** @type {number} */ i) =>
      w >= 0.005 && el("i", { class: `c${i % 10}`, title: `${members[i]}: ${percent(w)}`, style: { "flex-grow": w.toFixed(4) } }))));
  return [side("head"), side("tail"),
    el("ul", { class: "key" }, members.map((/** @type {string} */ name, /** @type {number} */ i) => el("li", null, el("i", { class: `c${i % 10}` }), name)))];
}

/** @param {any} found @param {boolean} alone */
async function relation(found, alone) {
  return [
    ...heading("relation", found, [plural(found.facts, "fact"), ". ",
      link(question(null, found.name, null), null, "Most probable pairs"), " · ",
      link({ view: "map", relation: found.name }, null, "on the map"), " · ",
      link({ view: "doubts", relation: found.name }, null, "doubts")], alone),
    figures(found),
    found.related.length > 0 && section("Says the same",
      el("p", { class: "names" }, commas(found.related.map((/** @type {Named} */ other) => el("span", null,
        cardLink("relation", other.name, other.label), other.kind === "inverse" ? " (the other way round)" : ""))))),
    section("What models can tell apart", found.theory ? verdict(found.theory) : waiting("Working it out")),
    found.calibration && section("How far to trust its probabilities", reliability(found.calibration)),
    found.weights && section("Who answers", await shares(found.weights)),
  ];
}
