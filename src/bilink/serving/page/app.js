// The page: its state is its address.

import { answers, doubts, judge } from "./answers.js";
import { get } from "./api.js";
import { card } from "./cards.js";
import { Combobox } from "./combobox.js";
import { count, el, plural, show } from "./dom.js";
import { go, link, onGo, question, read } from "./links.js";
import { map } from "./map.js";

const $ = (id) => document.getElementById(id);
const places = { answers: $("answers"), card: $("card"), main: $("main") };
const boxes = {};
let info = null;
let requests = {}; // what is being looked for, so that it can be dropped
let shown = {}; // what each part shows

for (const host of document.querySelectorAll(".box")) {
  const { role, kind, label } = host.dataset;
  boxes[role] = new Combobox(host, {
    kind, label, placeholder: "?",
    changed: (name, left) => { if (!left) ask({ [role]: name }); },
  });
}

function fromBoxes() {
  return Object.fromEntries(Object.entries(boxes).map(([role, box]) => [role, box.take()]));
}

function ask(change) {
  const state = { ...fromBoxes(), ...change };
  go({ view: "ask", ...state });
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  Object.values(boxes).forEach((box) => box.close());
  const state = fromBoxes();
  go({ view: Object.values(state).some(Boolean) ? "ask" : "new", ...state });
});
$("new").addEventListener("change", (event) => go({ new: event.target.checked }));
$("fitting").addEventListener("change", (event) => go({ any: !event.target.checked }));
$("many").addEventListener("change", (event) => go({ k: Number(event.target.value) }));
for (const a of document.querySelectorAll("#views a, .brand")) {
  a.addEventListener("click", (event) => {
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const none = { head: null, relation: null, tail: null, card: null };
    if (!a.dataset.view) go({ view: "ask", ...none });
    else go({ view: a.dataset.view, ...(a.dataset.view === "ask" ? {} : none) });
  });
}

function hint({ head, relation, tail }) {
  const filled = [head, relation, tail].filter(Boolean).length;
  if (filled === 3) return "All three boxes are full: this asks how likely that fact is.";
  if (filled === 1 && !relation) return "Fill one more box: a relation, or the other entity.";
  return "Fill two boxes, and the third is the question. A relation alone asks for pairs.";
}

function welcome(place) {
  const tries = info.examples.map(({ head, relation }) =>
    link(question(head.name, relation.name, null), { class: "try" },
      el("b", null, head.label), " ", relation.label, " ", el("b", { class: "open" }, "?")));
  const first = info.examples[0]?.relation;
  show(place, el("div", { class: "welcome" },
    el("h1", null, "What would you like to know?"),
    el("p", { class: "under" }, `${info.graph} has ${plural(info.entities, "entity", "entities")}, ${plural(info.relations, "relation")} and ${plural(info.facts, "fact")}. What is missing, and what looks wrong?`),
    el("div", { class: "tries" }, tries,
      first && link(question(null, first.name, null), { class: "try" }, el("b", { class: "open" }, "?"), " ", first.label, " ", el("b", { class: "open" }, "?")),
      link({ view: "new" }, { class: "try" }, "Which new facts are most probable?"),
      link({ view: "doubts" }, { class: "try" }, "Which facts look wrong?"),
      link({ view: "map" }, { class: "try" }, "A map of all entities"))));
}

function part(name, key, work) {
  if (shown[name] === key) return;
  shown[name] = key;
  requests[name]?.abort();
  requests[name] = new AbortController();
  work(requests[name].signal);
}

function render(state, change = {}) {
  const { view } = state;
  document.body.dataset.view = view;
  for (const a of document.querySelectorAll("#views a")) {
    if (a.dataset.view === view) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  for (const [role, box] of Object.entries(boxes)) {
    const wanted = view === "ask" ? state[role] : null;
    if (box.name !== wanted) box.set(wanted);
  }
  $("hint").textContent = hint(state);
  $("new").checked = state.new;
  $("fitting").checked = !state.any;
  $("many").value = String(state.k);
  if ($("many").selectedIndex < 0) $("many").append(el("option", { selected: true }, state.k));
  const { head, relation, tail } = state;
  const place = places.answers;
  if (view !== "map") { delete place.dataset.map; place.picture?.watch.disconnect(); delete place.picture; }
  const filled = [head, relation, tail].filter(Boolean).length;
  const key = JSON.stringify([view, head, relation, tail, state.new, state.any, state.k]);
  if (view === "map") part("answers", `${key}${state.card}`, (signal) => map(place, state, signal));
  else if (view === "doubts") part("answers", key, (signal) => doubts(place, state, signal));
  else if (view === "new") part("answers", key, (signal) => answers(place, { ...state, head: null, relation: null, tail: null }, signal));
  else if (!filled) part("answers", "welcome", () => welcome(place));
  else if (filled === 1 && !relation) part("answers", key, (signal) => card(place, `entity:${head ?? tail}`, signal));
  else part("answers", key, (signal) => (filled === 3 ? judge : answers)(place, state, signal));
  const open = state.card && !(filled === 1 && !relation && view === "ask" && state.card === `entity:${head ?? tail}`);
  places.main.classList.toggle("with-card", Boolean(open));
  if (!open) { places.card.hidden = true; shown.card = null; }
  else part("card", state.card, async (signal) => {
    await card(places.card, state.card, signal);
    if (change.card && matchMedia("(max-width: 60rem)").matches) places.card.scrollIntoView({ block: "start" });
  });
  title(state);
}

function title({ view, head, relation, tail }) {
  const words = { new: "new facts", doubts: "doubts", map: "map" }[view]
    ?? ([head, relation, tail].some(Boolean) ? [head, relation, tail].map((w) => w ?? "?").join(" · ") : "");
  document.title = `${words ? words + " – " : ""}bilink explorer`;
}

onGo(render);
window.addEventListener("popstate", () => render(read()));

try {
  info = await get("info");
  show($("about"), el("b", null, info.graph), ` ${count(info.entities)} entities · ${count(info.facts)} facts`);
  $("fitting-only").hidden = info.calibrated; // probabilities know what fits
  show($("foot"), `bilink ${info.version} · ${info.run}`);
  document.body.dataset.ready = "1";
  render(read());
} catch (error) {
  show(places.answers, el("div", { class: "trouble", role: "alert" }, el("p", null, error.message)));
}
