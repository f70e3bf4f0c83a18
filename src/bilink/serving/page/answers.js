// Answers, new facts and doubtful facts as lists with bars.

import { get, labelOf, post } from "./api.js";
import { count, el, note, percent, plural, show, trouble, waiting } from "./dom.js";
import { explanation } from "./explanation.js";
import { cardLink, link } from "./links.js";

export function asked({ head, relation, tail }) {
  if (head && tail) return "relation";
  if (head) return "tail";
  if (tail) return "head";
  return relation ? "pair" : "fact";
}

// How long the bars are: probabilities as they are; where there are none, scores within what is shown.
function lengths(rows) {
  if (rows.some((row) => row.probability !== null)) return rows.map((row) => row.probability ?? 0);
  const scores = rows.map((row) => row.score).filter((s) => s !== null);
  const low = Math.min(...scores), high = Math.max(...scores);
  return rows.map((row) => {
    if (row.score === null) return 0;
    return high > low ? 0.04 + 0.96 * (row.score - low) / (high - low) : 1;
  });
}

// A training fact has no probability, since the model has seen it: "–" where others have one.
export function bar(row, length, among = false) {
  const sure = row.probability !== null;
  const words = sure ? percent(row.probability) : among ? "–" : row.score?.toFixed(2) ?? "–";
  return [
    el("span", { class: `bar${sure ? "" : " score"}`, "aria-hidden": true },
      el("i", { style: { width: `${(100 * length).toFixed(1)}%` } })),
    el("span", { class: "value", title: sure ? "probability" + (row.known ? ", did the graph not hold it" : "") : among ? "the model was trained on this fact" : "score: higher is more likely" }, words),
  ];
}

function subject(row, kind) {
  if (kind === "tail") return cardLink("entity", row.tail, row.tail_label);
  if (kind === "head") return cardLink("entity", row.head, row.head_label);
  if (kind === "relation") return cardLink("relation", row.relation, row.relation_label);
  const parts = [cardLink("entity", row.head, row.head_label)];
  if (kind === "fact") parts.push(el("span", { class: "verb" }, cardLink("relation", row.relation, row.relation_label)));
  else parts.push(el("span", { class: "verb", "aria-hidden": true }, "–"));
  parts.push(cardLink("entity", row.tail, row.tail_label));
  return parts;
}

function why(row, host) {
  const place = el("div", { class: "why", hidden: true });
  const button = el("button", {
    type: "button", class: "quiet", "aria-expanded": "false",
    onclick: async () => {
      const open = place.hidden;
      place.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
      if (!open || place.dataset.done) return;
      place.dataset.done = "1";
      show(place, waiting("Looking for reasons"));
      try {
        const { head, relation, tail } = row;
        show(place, explanation(await get("explain", { head, relation, tail })));
      } catch (error) {
        delete place.dataset.done;
        show(place, trouble(error));
      }
    },
  }, "why");
  host.append(button, place);
}

export function list(rows, kind) {
  const wide = lengths(rows);
  const among = rows.some((row) => row.probability !== null);
  return el("ol", { class: `rows ${kind}` }, rows.map((row, i) => {
    const item = el("li", { class: row.known ? "known" : "new" },
      el("span", { class: "rank" }, count(row.rank)),
      el("span", { class: "what" }, subject(row, kind)),
      bar(row, wide[i], among),
      el("span", { class: "mark", title: row.known ? "the graph holds this" : "not in the graph" }, row.known ? "known" : "new"));
    why(row, item);
    return item;
  }));
}

function words({ head, relation, tail }, labels) {
  const part = (text) => (text ? el("b", null, text) : el("b", { class: "open" }, "?"));
  return [part(head && labels.head), " ", part(relation && labels.relation), " ", part(tail && labels.tail)];
}

// Fill `place` with the answers to the state's question.
export async function answers(place, state, signal) {
  const kind = asked(state);
  const slow = kind === "pair" || kind === "fact";
  const again = () => answers(place, state, signal);
  show(place, waiting(slow ? "Going through all pairs" : "Asking"));
  place.setAttribute("aria-busy", "true");
  try {
    const { head, relation, tail, k } = state;
    const fresh = state.new || kind === "fact";
    const found = await get("query", { head, relation, tail, k, new: fresh, any_entity: state.any }, signal);
    const rows = found.answers;
    const first = rows[0];
    const labels = first
      ? { head: first.head_label, relation: first.relation_label, tail: first.tail_label }
      : { head, relation, tail };
    const sure = rows.some((row) => row.probability !== null);
    show(place,
      el("h1", null, kind === "fact" ? "The most probable new facts" : words(state, labels)),
      el("p", { class: "under" },
        rows.length ? `${plural(rows.length, "answer")}${fresh ? ", none of them in the graph" : ""}, by ` : null,
        rows.length ? (sure ? "probability" : "score") : null,
        rows.length && sure && found.missing ? ` (if ${percent(found.missing)} of all facts are missing)` : null,
        rows.length && !sure ? " (higher is more likely; no probabilities yet)" : null),
      rows.length ? list(rows, kind)
        : note(el("p", null, "No answers. "), fresh && kind !== "fact" ? el("p", null, "All that fits is in the graph already; try without “new facts only”.") : null));
  } catch (error) {
    if (error.name === "AbortError") return;
    show(place, trouble(error, again));
  } finally {
    place.setAttribute("aria-busy", "false");
  }
}

// Nothing is left open: how likely is this one?
export async function judge(place, state, signal) {
  show(place, waiting("Asking"));
  try {
    const { head, relation, tail } = state;
    const { scores: [found], missing } = await post("score", { triples: [[head, relation, tail]] }, signal);
    show(place,
      el("h1", null, "How likely is this?"),
      el("p", { class: "under" }, found.known ? "The graph holds this fact." : "The graph does not hold this fact.",
        found.probability !== null && missing ? ` Its probability, if ${percent(missing)} of all facts are missing:` : null),
      list([{ ...found, rank: 1 }], "fact"));
  } catch (error) {
    if (error.name !== "AbortError") show(place, trouble(error, () => judge(place, state, signal)));
  }
}

export function doubtRow(row, at) {
  const fix = row.suggestion && el("p", { class: "fix" }, "perhaps ",
    cardLink("entity", row.suggestion.name, row.suggestion.label), " in place of ", row[`${row.side}_label`], "?");
  return el("li", { class: "doubt" },
    at !== undefined && el("span", { class: "rank" }, count(at)),
    el("span", { class: "what" }, subject(row, "fact"), fix),
    bar(row, row.probability ?? 0));
}

export async function doubts(place, state, signal) {
  show(place, waiting());
  try {
    const found = await get("audit", { relation: state.relation, k: Math.max(state.k, 30) }, signal);
    const about = state.relation && await labelOf("relation", state.relation);
    const title = el("h1", null, "Facts that look wrong", about && [": ", el("b", null, about)]);
    if (!found.audited) {
      show(place, title, note(
        el("p", null, "Nobody has looked for doubtful facts in this run yet. This command does: it scores each fact by models that have not seen it."),
        el("pre", null, found.command),
        el("p", null, "Then start the explorer again.")));
      return;
    }
    show(place, title,
      el("p", { class: "under" }, "Each was judged by a model that had not seen it; the number is the probability that it is true. A doubt is a reason to look, not a proof.",
        about && [" ", link({ relation: null }, null, "All relations")]),
      found.doubts.length ? el("ol", { class: "rows doubts" }, found.doubts.map((row, i) => doubtRow(row, i + 1)))
        : note(el("p", null, "No doubts here.")));
  } catch (error) {
    if (error.name !== "AbortError") show(place, trouble(error, () => doubts(place, state, signal)));
  }
}
