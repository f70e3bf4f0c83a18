// @ts-check
// The review: a queue to work through, what was decided, and what the model makes of it.

import { KINDS, decide, decisionOf, progress, refresh, reviewing, watch } from "./decisions.js";
import { Combobox } from "./combobox.js";
import { announce, choice, el, note, quiet, show, trouble, waiting } from "./dom.js";
import { count, percent, plural, readRule } from "./format.js";
import { pager } from "./listview.js";
import { go, link } from "./links.js";
import { bar, item, rowOf, subject } from "./rows.js";
import { forget, fullAddress, get, post, send } from "./store.js";
import { doubtRow } from "./doubts.js";

/** @typedef {import("./state.js").State} State */
/** @typedef {HTMLElement & {arrange?: any, leave?: (() => void)|null}} Place */

const PARTS = { queue: "Queue", decisions: "Decisions", update: "Update the model" };

/** @param {State} state */
const tabs = ({ part }) => el("nav", { class: "parts-of", "aria-label": "Review" },
  Object.entries(PARTS).map(([key, words]) =>
    link({ view: "review", part: key === "queue" ? null : key }, { "aria-current": (part ?? "queue") === key ? "page" : null }, words)));

/** @param {Place} place @param {State} state @param {AbortSignal} signal */
export async function review(place, state, signal) {
  const part = state.part ?? "queue";
  place.leave?.();
  place.leave = null;
  if (!reviewing) {
    show(place, el("h1", null, "Review"), note(
      el("p", null, "This server keeps no decisions. Start it with this option, and each answer can be accepted or rejected:"),
      el("pre", null, "bilink serve RUN --review")));
    return;
  }
  const body = el("div", null, waiting());
  const said = progress();
  const top = el("div", { class: "progress-place" }, said);
  show(place, el("h1", null, "Review"), tabs(state), part !== "update" && top, body);
  const end = watch(() => show(top, progress()));
  place.leave = end;
  signal.addEventListener("abort", end);
  const works = { queue, decisions, update };
  try {
    await (/** @type {any} */ (works)[part] ?? queue)(body, state, signal, place);
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "AbortError") show(body, trouble(error, () => review(place, state, signal)));
  }
}

/** @param {HTMLElement} body @param {State} state @param {AbortSignal} signal */
async function queue(body, state, signal) {
  const kind = state.kind === "doubts" ? "doubts" : "new";
  const order = state.order === "learning" ? "learning" : "probability";
  const host = el("div", { class: "box inline" });
  const rest = el("p", { class: "under", role: "status" });
  const place = el("div", null, waiting());
  show(body,
    el("div", { class: "ways" },
      choice("what", [["", "New facts"], ["doubts", "Doubts"]], state.kind ?? "", (value) => go({ kind: value || null })),
      choice("order", [["", kind === "new" ? "most probable first" : "most doubtful first"], ["learning", "what teaches the model most"]], state.order ?? "", (value) => go({ order: value || null })),
      host),
    place, rest);
  const box = new Combobox(host, { kind: "relation", label: "relation", placeholder: "all relations", changed: (name) => go({ relation: name }) });
  box.set(state.relation);
  const found = await get("queue", { kind, order, relation: state.relation, k: state.k }, signal);
  const rows = found.rows;
  if (!rows.length) {
    show(place, note(el("p", null, kind === "new" ? "Nothing is left to decide here." : "No doubts are left to decide. “bilink audit RUN” looks for more.")));
    rest.textContent = "";
    return;
  }
  const draw = (/** @type {any} */ row, /** @type {number} */ i) => {
    const asks = row.why_asked && el("p", { class: "asked small" }, row.why_asked);
    if (kind === "doubts") {
      const line = doubtRow(row, i + 1);
      if (asks) line.append(asks);
      return line;
    }
    return item(row, { kind: "fact", at: i + 1, length: row.probability ?? 0, among: true, words: true, below: asks });
  };
  show(place, el("ol", { class: `rows ${kind === "doubts" ? "doubts" : "fact"} queue` }, rows.map(draw)),
    el("p", { class: "pager" }, quiet(`Next ${count(state.k)}`, () => go({}, true), { class: "quiet next again" })),
    keys());
  place.querySelector(".again")?.addEventListener("click", () => { scrollTo({ top: 0 }); review(/** @type {any} */ (body.parentElement), state, signal); });
  const tell = () => {
    const left = rows.filter((/** @type {any} */ row) => !decisionOf(row)).length;
    rest.textContent = left ? `${count(left)} of these ${count(rows.length)} left.` : "All of these are decided.";
  };
  tell();
  const end = watch(() => {
    if (!body.isConnected) { end(); return; }
    tell();
  });
  signal.addEventListener("abort", end);
}

const keys = () => el("p", { class: "under keys" },
  [["J", "next"], ["K", "previous"], ["A", "accept"], ["R", "reject"], ["U", "unsure"], ["W", "why"], ["Z", "undo"]]
    .map(([key, words]) => el("span", null, el("kbd", null, key), ` ${words}`)));

const when = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
/** @param {string|number} time */
function day(time) {
  const date = new Date(typeof time === "number" ? time * 1000 : time);
  return Number.isNaN(date.getTime()) ? String(time) : when.format(date);
}

/** @param {HTMLElement} body @param {State} state @param {AbortSignal} signal */
async function decisions(body, state, signal) {
  const kinds = KINDS.map(([kind, , , , past]) => /** @type {[string, string]} */ ([kind, past]));
  const found = await get("decisions", { decision: state.decision, k: state.k, offset: state.from }, signal);
  const again = () => decisions(body, state, signal);
  show(body,
    el("div", { class: "ways" },
      choice("show", [["", "all"], ...kinds], state.decision ?? "", (value) => go({ decision: value || null })),
      el("span", { class: "take" }, exports(state.decision ?? "accept"))),
    found.decisions.length
      ? el("ol", { class: "rows decisions" }, found.decisions.map((/** @type {any} */ row) => made(row)))
      : note(el("p", null, "No decisions here yet.")),
    pager(state, found.decisions.length, found.more, found.count),
    el("div", { class: "imported", role: "status" }),
    importing(again));
}

/** @param {string} decision */
const exports = (decision) => [
  el("span", { class: "small" }, `Export ${decision === "accept" ? "accepted facts" : decision}: `),
  ["tsv", "csv", "nt", "json"].map((format) => el("a", {
    class: "quiet", download: "", href: fullAddress("decisions/export", { decision, format }),
  }, format === "nt" ? "N-Triples" : format.toUpperCase()))];

/** @param {any} row */
function made(row) {
  const reason = el("input", { type: "text", class: "reason", "aria-label": `Reason for ${row.head_label} ${row.relation_label} ${row.tail_label}`,
    placeholder: "reason (optional)", maxlength: 500, dir: "auto", onchange: () => decide([[row, decisionOf(row) ?? row.decision]], reason.value) });
  reason.value = row.reason ?? "";
  const withdraw = quiet("Withdraw", () => {
    const back = decisionOf(row) === null;
    decide([[row, back ? row.decision : null]], back ? reason.value : undefined);
    withdraw.textContent = back ? "Withdraw" : "Put back";
    line.classList.toggle("withdrawn", !back);
  });
  const past = KINDS.find(([kind]) => kind === row.decision)?.[4] ?? row.decision;
  const line = el("li", { class: row.kind === "doubt" ? "doubt" : "new" },
    el("span", { class: `chip ${row.decision}` }, past),
    el("span", { class: "what" }, subject(row, "fact")),
    el("span", { class: "value" }, typeof row.probability === "number" ? percent(row.probability) : ""),
    el("time", { class: "small" }, day(row.time)),
    reason, el("span", { class: "acts" }, withdraw));
  rowOf.set(line, row);
  return line;
}

/** @param {() => Promise<void>} done Shows the decisions anew. */
function importing(done) {
  const said = el("div", { role: "status" });
  const file = el("input", { type: "file", accept: ".tsv,.txt,text/tab-separated-values,text/plain", "aria-label": "A file of triples" });
  const text = el("textarea", { rows: 3, "aria-label": "Triples to import", placeholder: "head ⇥ relation ⇥ tail", dir: "auto" });
  let decision = "accept";
  async function read() {
    try {
      const content = file.files?.length ? await file.files[0].text() : text.value;
      const found = await send("decisions/import", { decision }, content);
      await refresh();
      await done();
      announce(`${plural(found.added, "decision")} imported`);
      const place = document.querySelector(".imported");
      if (place) show(place, note(summary(found)));
    } catch (error) {
      show(said, trouble(error));
    }
  }
  return el("details", { class: "folded importing" },
    el("summary", null, "Import decisions"),
    el("p", { class: "under" }, "A line for each triple: head, relation and tail, with tabs between them, and optionally accept, reject or unsure."),
    file, text,
    el("p", { class: "ways" },
      choice("import as", KINDS.map(([kind, , , , past]) => /** @type {[string, string]} */ ([kind, past])), "accept", (value) => { decision = value; }),
      el("button", { type: "button", class: "go small-go", onclick: read }, "Import")),
    said);
}

/** @param {any} found */
const summary = ({ added, known, unknown }) => [
  el("p", null, `${plural(added, "decision")} imported${known ? `, ${count(known)} ${known === 1 ? "was" : "were"} there already` : ""}.`),
  unknown?.length > 0 && el("ul", null, unknown.slice(0, 20).map((/** @type {string} */ line) => el("li", { dir: "auto" }, line))),
  unknown?.length > 20 && el("p", null, `and ${count(unknown.length - 20)} more that are unknown`)];

/** @param {HTMLElement} body @param {State} state @param {AbortSignal} signal */
async function update(body, state, signal) {
  let found = await get("update", {}, signal);
  const start = async () => {
    try {
      found = await post("update", {});
      await watchUpdate();
    } catch (error) {
      if (/** @type {Error} */ (error).name !== "AbortError") show(body, trouble(error, start));
    }
  };
  async function watchUpdate() {
    const step = el("p", { role: "status" }, found.step ?? "");
    const gauge = el("progress", { "aria-label": "Progress of the update", max: 1 });
    show(body, note(el("p", null, "The model learns from what was decided. You can go on reviewing."), gauge, step));
    for (;;) {
      found = await get("update", {}, signal);
      if (found.state !== "running") break;
      if (step.textContent !== found.step) step.textContent = found.step ?? "";
      if (typeof found.progress === "number") gauge.value = found.progress;
      await new Promise((go_on) => { setTimeout(go_on, 500); });
      if (signal.aborted) return;
    }
    forget();
    announce(found.state === "done" ? "The model is updated." : "The update failed.");
    draw();
    document.dispatchEvent(new CustomEvent("updated"));
  }
  function draw() {
    const button = el("button", { type: "button", class: "go", onclick: start }, found.state === "done" ? "Update again" : "Update the model");
    show(body,
      found.state !== "done" && note(
        el("p", null, "Accepted facts become known, rejected ones become examples of what is wrong, and the model is adapted to them. The run stays as it is; the update is a run of its own, beside it."),
        progress(), el("p", { class: "ways" }, button)),
      found.state === "failed" && el("div", { class: "trouble", role: "alert" }, el("p", null, found.error)),
      found.state === "done" && changes(found),
      found.state === "done" && el("p", { class: "ways" }, button));
  }
  if (found.state === "running") await watchUpdate();
  else draw();
}

/** "12 % → 81 %", and which way.  @param {number|null} before @param {number|null} after */
function moved(before, after) {
  const words = (/** @type {number|null} */ p) => (typeof p === "number" ? percent(p) : "–");
  const rose = (after ?? 0) >= (before ?? 0);
  return el("span", { class: `moved ${rose ? "rose" : "fell"}` }, el("span", null, words(before)),
    el("span", { "aria-label": rose ? "rose to" : "fell to", role: "img" }, rose ? " ↗ " : " ↘ "), el("b", null, words(after)));
}

/** @param {string} text */
function ruleWords(text) {
  const rule = readRule(text);
  return rule ? `If ${rule.when}, then ${rule.then}.` : text;
}

/** @param {any} found */
function changes({ run, changes: what }) {
  if (!what) return note(el("p", null, "The model is updated."));
  const { facts = [], answers = [], rules = [], counts, metrics } = what;
  const triple = (/** @type {any} */ row) => ({ ...row.triple, ...row.labels, ...row });
  const up = rules.filter((/** @type {any} */ r) => (r.after ?? 0) >= (r.before ?? 0));
  const down = rules.filter((/** @type {any} */ r) => (r.after ?? 0) < (r.before ?? 0));
  const part = (/** @type {string} */ title, /** @type {unknown} */ content) => content && el("section", null, el("h2", null, title), content);
  const ruleList = (/** @type {any[]} */ rows) => rows.length > 0 && el("ul", { class: "plain-list" }, rows.map((r) =>
    el("li", null, el("span", { dir: "auto" }, ruleWords(r.sentence)), " ", moved(r.before, r.after))));
  return el("div", { class: "changes" },
    note(el("p", null, el("b", null, "The model is updated"), counts && `: ${plural(counts.accepted, "fact")} accepted, ${count(counts.rejected)} rejected${counts.new_entities ? `, ${plural(counts.new_entities, "new entity", "new entities")}` : ""}.`),
      metrics && el("p", { class: "under" }, `Validation MRR ${metrics.before.toFixed(3)} before, ${metrics.after.toFixed(3)} after.`),
      run && el("p", { class: "ways" }, link({ view: "ask", run, head: null, relation: null, tail: null }, { class: "go" }, "Open the updated run"),
        link({ view: "compare", run: null, head: null, relation: null, tail: null }, { class: "quiet" }, "Compare the two"))),
    part("Facts whose probability moved most", facts.length > 0 && el("ol", { class: "rows changed" }, facts.map((/** @type {any} */ row) => {
      const fact = triple(row);
      const line = el("li", null, el("span", { class: "what" }, subject({ ...fact, probability: fact.after }, "fact")), bar({ ...fact, probability: fact.after }, fact.after ?? 0)[0], moved(fact.before, fact.after));
      return line;
    }))),
    part("Answers that rose and fell", answers.length > 0 && el("ul", { class: "plain-list" }, answers.map(question))),
    part("Rules that rose", ruleList(up)),
    part("Rules that fell", ruleList(down)),
    !facts.length && !answers.length && !rules.length && el("p", null, "Nothing moved."));
}

/** An answer may be a name, or a row with a name.  @param {any} row */
const called = (row) => (typeof row === "string" ? row : row.label ?? row.tail_label ?? row.name);

/** From which place to which.  @param {any} row */
const places = ({ before, after }) => (before === undefined ? null
  : el("span", { class: "small" }, ` ${before ?? "below"} → ${after ?? "below"}`));

/** @param {any} row */
function question(row) {
  const { head, relation, tail } = row.question;
  const words = (/** @type {string} */ role) => row.labels?.[role] ?? row.labels?.[`${role}_label`] ?? row.question[role] ?? "?";
  const names = (/** @type {any[]} */ rows) => rows.map((other, i) => [i > 0 && ", ", el("bdi", null, called(other)), places(other)]);
  return el("li", null,
    link({ view: "ask", head: head ?? null, relation: relation ?? null, tail: tail ?? null, new: true }, { class: "quiet" },
      ["head", "relation", "tail"].map((role, i) => [i > 0 && " ", el("bdi", null, words(role))])),
    row.rose?.length > 0 && el("span", { class: "moved rose" }, el("span", { role: "img", "aria-label": "rose:" }, " ↗ "), names(row.rose)),
    row.fell?.length > 0 && el("span", { class: "moved fell" }, el("span", { role: "img", "aria-label": "fell:" }, " ↘ "), names(row.fell)));
}

