// @ts-check
// The page: its state is its address.

import { answers, facts, judge } from "./answers.js";
import { card } from "./cards.js";
import { Combobox } from "./combobox.js";
import { compare } from "./compare.js";
import { drawBar, startReview, sync } from "./decisions.js";
import { doubts } from "./doubts.js";
import { $, announce, el, note, show, trouble, waiting } from "./dom.js";
import { count, plural } from "./format.js";
import { enterFirst, listen, remember } from "./keys.js";
import { cardLink, go, isForBrowser, link, now, onGo, question } from "./links.js";
import { source } from "./listview.js";
import { map } from "./map.js";
import { Neighbourhood } from "./neighbourhood.js";
import { review } from "./review.js";
import { MOST, address, read } from "./state.js";
import { chooseRun, get, labelOf, start } from "./store.js";

/** @typedef {import("./state.js").State} State */

const places = { answers: $("answers"), card: $("card"), main: $("main") };
/** @type {Record<string, Combobox>} */
const boxes = {};
/** @type {any} */
let info = null;
/** @type {Record<string, AbortController>} */
const requests = {}; // what is being looked for, so that it can be dropped
/** @type {Record<string, string|null>} */
const shown = {}; // what each part shows
/** The address of each view as it was left.  @type {Map<string, string>} */
const left = new Map();
let byKey = false; // the question was asked by the keyboard

/** The tab of a view.  @param {string} view */
const tabOf = (view) => (view === "facts" || view === "graph" ? "ask" : view);

for (const host of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".ask .box"))) {
  const { role = "", kind = "", label = "" } = host.dataset;
  boxes[role] = new Combobox(host, {
    kind, label, placeholder: "?",
    changed: (name, gone, key) => {
      if (gone) return;
      byKey = Boolean(key && name);
      ask({ [role]: name });
    },
  });
}

const fromBoxes = () => Object.fromEntries(Object.entries(boxes).map(([role, box]) => [role, box.take()]));
const asking = () => (now().view === "compare" ? "compare" : "ask");

/** @param {Partial<State>} change */
const ask = (change) => go({ view: asking(), ...fromBoxes(), ...change });

$("ask").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  Object.values(boxes).forEach((box) => box.close());
  byKey = $("ask").contains(document.activeElement);
  const state = fromBoxes();
  if (Object.values(state).some(Boolean) || asking() === "compare") go({ view: asking(), ...state });
  else go({ view: "new" });
});
$("new").addEventListener("change", (/** @type {any} */ event) => go({ new: event.target.checked }));
$("fitting").addEventListener("change", (/** @type {any} */ event) => go({ any: !event.target.checked }));
$("many").addEventListener("change", (/** @type {any} */ event) => go({ k: Number(event.target.value) }));
$("run").addEventListener("change", (/** @type {any} */ event) => {
  left.clear();
  go({ run: event.target.value === info.runs[0].id ? null : event.target.value });
});
for (const a of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("#views a, .brand"))) {
  a.addEventListener("click", (event) => {
    if (isForBrowser(event)) return;
    event.preventDefault();
    const wanted = a.dataset.view ? read(new URL(a.href).search) : read("");
    history.pushState(null, "", address({ ...wanted, run: now().run }));
    render(now());
  });
}

/** @param {State} state */
function hint({ head, relation, tail, view }) {
  const filled = [head, relation, tail].filter(Boolean).length;
  if (view === "compare") return "Fill two boxes; every run answers.";
  if (filled === 3) return "All three boxes are full: this asks how likely that fact is.";
  if (filled === 1 && !relation) return "Fill one more box: a relation, or the other entity.";
  return "Fill two boxes, and the third is the question. A relation alone asks for pairs.";
}

/** @param {HTMLElement} place */
function welcome(place) {
  const tries = info.examples.map((/** @type {any} */ { head, relation }) =>
    link(question(head.name, relation.name, null), { class: "try" },
      el("b", null, el("bdi", null, head.label)), " ", el("bdi", null, relation.label), " ", el("b", { class: "open" }, "?")));
  const first = info.examples[0]?.relation;
  show(place, el("div", { class: "welcome" },
    el("h1", null, "What would you like to know?"),
    el("p", { class: "under" }, el("bdi", null, info.graph), ` has ${plural(info.entities, "entity", "entities")}, ${plural(info.relations, "relation")} and ${plural(info.facts, "fact")}. What is missing, and what looks wrong?`),
    el("div", { class: "tries" }, tries,
      first && link(question(null, first.name, null), { class: "try" }, el("b", { class: "open" }, "?"), " ", el("bdi", null, first.label), " ", el("b", { class: "open" }, "?")),
      link({ view: "new" }, { class: "try" }, "Which new facts are most probable?"),
      link({ view: "doubts" }, { class: "try" }, "Which facts look wrong?"),
      link({ view: "map" }, { class: "try" }, "A map of all entities"),
      info.review && link({ view: "review" }, { class: "try" }, "Review them one by one"))));
}

/** @param {HTMLElement} place @param {State} state @param {AbortSignal} signal */
async function drawing(place, state, signal) {
  show(place, waiting());
  try {
    const name = state.head ?? "";
    const found = await get("neighbourhood", { name, size: 24 }, signal);
    const wide = Math.max(340, Math.min(1100, place.clientWidth - 2));
    const picture = new Neighbourhood(found, { wide, high: Math.max(420, Math.min(640, innerHeight - 260)), large: true, signal });
    show(place, el("h1", null, "Around ", cardLink("entity", name, found.nodes[0].label)),
      el("p", { class: "under" }, "Click an entity to add its neighbours; “Likely links” draws what is probable and not in the graph."),
      found.nodes.length > 1 ? picture.node : note(el("p", null, "No facts to draw.")));
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "AbortError") show(place, el("h1", null, "Neighbourhood"), trouble(error));
  }
}

/** @param {string} name @param {string} key @param {(signal: AbortSignal) => any} work */
function part(name, key, work) {
  if (shown[name] === key) return false;
  shown[name] = key;
  requests[name]?.abort();
  requests[name] = new AbortController();
  Promise.resolve(work(requests[name].signal)).then(() => { if (name === "answers" && shown[name] === key) ready(); });
  return true;
}

/** The answers are there: who asked by the keyboard goes on there. */
function ready() {
  const number = places.answers.querySelectorAll(".arranged .rows > li").length;
  if (number) announce(`${plural(number, "row")}.`);
  if (byKey && [now().head, now().relation, now().tail].filter(Boolean).length > 1) enterFirst();
  byKey = false;
}

/** What the main part shows, and how.  @param {State} state @returns {[string, (signal: AbortSignal) => any]} */
function work(state) {
  const { view, head, relation, tail, run } = state;
  const place = places.answers;
  const filled = [head, relation, tail].filter(Boolean).length;
  const key = JSON.stringify([view, run, head, relation, tail, state.new, state.any, state.k, state.from, state.side, state.part, state.kind, state.order, state.decision]);
  /** @type {Record<string, (signal: AbortSignal) => any>} */
  const views = {
    map: (signal) => map(place, state, signal),
    doubts: (signal) => doubts(place, state, signal),
    review: (signal) => review(place, state, signal),
    compare: (signal) => compare(place, state, info, signal),
    facts: (signal) => facts(place, state, signal),
    graph: (signal) => drawing(place, state, signal),
    new: (signal) => answers(place, state, signal),
  };
  if (view === "map") return [key + state.card, views.map];
  if (views[view]) return [key, views[view]];
  if (!filled) return ["welcome", () => welcome(place)];
  if (filled === 1 && !relation) return [key, (signal) => card(place, `entity:${head ?? tail}`, signal)];
  return [key, (signal) => (filled === 3 ? judge : answers)(place, state, signal)];
}

/** @param {State} state @param {Partial<State>} [change] */
function render(state, change = {}) {
  const { view } = state;
  chooseRun(state.run ?? (info.runs?.length > 1 ? info.runs[0].id : null));
  document.body.dataset.view = view;
  left.set(tabOf(view), address({ ...state, card: null }));
  tabs(state);
  controls(state);
  drawBar();
  const place = places.answers;
  const [key, does] = work(state);
  if (shown.answers !== key) leave(place, view);
  if (!part("answers", key, does)) place.arrange?.(state);
  showCard(state, change);
  title(state);
}

/** What a view leaves behind in its place.  @param {any} place @param {string} view The next one. */
function leave(place, view) {
  place.arrange = null;
  if (view !== "ask" && view !== "new") delete place.dataset.question;
  if (view === "map") return;
  delete place.dataset.map;
  place.picture?.watch.disconnect();
  delete place.picture;
}

/** Each tab leads to where its view was left.  @param {State} state */
function tabs(state) {
  for (const a of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("#views a"))) {
    const tab = a.dataset.view ?? "ask";
    a.setAttribute("href", left.get(tab) ?? address({ view: tab, run: state.run }));
    if (tab === tabOf(state.view)) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
}

/** @param {State} state */
function controls(state) {
  for (const [role, box] of Object.entries(boxes)) {
    const wanted = state.view === "ask" || state.view === "compare" ? /** @type {any} */ (state)[role] : null;
    if (box.name !== wanted) box.set(wanted);
  }
  $("hint").textContent = hint(state);
  $("new").checked = state.new;
  $("fitting").checked = !state.any;
  const many = $("many");
  many.value = String(state.k);
  if (many.selectedIndex < 0) {
    many.querySelector("[data-odd]")?.remove();
    many.append(el("option", { selected: true, "data-odd": true }, Math.min(MOST, state.k)));
  }
  if (info.runs) chosenRun(state);
}

/** @param {State} state */
function chosenRun(state) {
  const run = info.runs.find((/** @type {any} */ { id }) => id === state.run) ?? info.runs[0];
  if (info.runs.length > 1) $("run").value = run.id;
  source.folder = run.path ?? `runs/${run.name}`;
}

/** @param {State} state @param {Partial<State>} change */
function showCard(state, change) {
  const { head, relation, tail } = state;
  const same = state.view === "ask" && !relation && Boolean(head) !== Boolean(tail) && state.card === `entity:${head ?? tail}`;
  const open = state.card && !same;
  const opens = Boolean(open && change.card);
  if (opens) remember();
  places.main.classList.toggle("with-card", Boolean(open));
  if (!open || !state.card) {
    places.card.hidden = true;
    requests.card?.abort();
    shown.card = null;
    return;
  }
  const what = state.card;
  part("card", `${state.run}${what}`, async (signal) => {
    await card(places.card, what, signal);
    if (!opens || signal.aborted) return;
    places.card.querySelector("h2")?.focus({ preventScroll: true });
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (matchMedia("(max-width: 60rem)").matches) places.card.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  });
}

/** @param {State} state */
async function title(state) {
  const words = /** @type {any} */ ({ new: "new facts", doubts: "doubts", map: "map", review: "review" })[state.view] ?? await questionTitle(state);
  if (address(state) === address(now())) document.title = `${words ? `${words} – ` : ""}bilink explorer`;
}

/** The question in labels.  @param {State} state */
async function questionTitle({ view, head, relation, tail }) {
  if (!head && !relation && !tail) return "";
  const [h, r, t] = await Promise.all([head && labelOf("entity", head), relation && labelOf("relation", relation), tail && labelOf("entity", tail)]);
  if (view === "graph") return `around ${h}`;
  if (view === "facts") return `${h} · ${r}`;
  return [h ?? "?", r ?? "?", t ?? "?"].join(" · ") + (view === "compare" ? " · compared" : "");
}

/** Runs to choose from, and what the server allows. */
function introduce() {
  show($("about"), el("b", null, el("bdi", null, info.graph)), ` ${count(info.entities)} entities · ${count(info.facts)} facts`);
  $("fitting-only").hidden = info.calibrated; // probabilities know what fits
  show($("foot"), `bilink ${info.version} · ${info.run}`, info.runs && [" · ", el("a", { href: "docs" }, "API")]);
  const several = info.runs?.length > 1;
  $("runs").hidden = !several;
  document.querySelector("[data-view=compare]")?.toggleAttribute("hidden", !several);
  document.querySelector("#views [data-view=review]")?.toggleAttribute("hidden", !info.review);
  if (several) show($("run"), info.runs.map((/** @type {any} */ run) => el("option", { value: run.id }, run.name)));
  source.token = !["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
}

onGo(render);
listen();
window.addEventListener("popstate", () => render(now()));
document.addEventListener("visibilitychange", () => { if (!document.hidden) sync().catch(() => {}); });
document.addEventListener("updated", async () => { info = await get("info"); introduce(); controls(now()); });
try {
  info = await start();
  introduce();
  startReview(info);
  document.body.dataset.ready = "1";
  render(now());
} catch (error) {
  show(places.answers, el("h1", null, "bilink"), trouble(error));
}
