// Links that change the state of the page; they are ordinary addresses, so that they can be shared.

import { el } from "./dom.js";

const KEYS = ["view", "head", "relation", "tail", "new", "any", "k", "card"];
const FLAGS = ["new", "any"];
export const FEW = 10;

export function read(search = location.search) {
  const given = new URLSearchParams(search);
  const state = {};
  for (const key of KEYS) state[key] = given.get(key) || null;
  if (!["new", "doubts", "map"].includes(state.view)) state.view = "ask";
  for (const key of FLAGS) state[key] = state[key] === "1";
  state.k = Math.min(1000, Math.max(1, Number.parseInt(state.k, 10) || FEW));
  return state;
}

export function address(state) {
  const query = new URLSearchParams();
  for (const key of KEYS) {
    const value = FLAGS.includes(key) ? (state[key] ? "1" : null) : state[key];
    if (value && !(key === "view" && value === "ask") && !(key === "k" && value === FEW)) query.set(key, value);
  }
  const text = query.toString();
  return text ? `?${text}` : "?";
}

let follow = () => {};
export const onGo = (f) => { follow = f; };
export const go = (change) => {
  const state = { ...read(), ...change };
  history.pushState(null, "", address(state));
  follow(state, change);
};

// Plain clicks stay on the page; others (a new tab) are the browser's.
export function link(change, attributes, ...children) {
  return el("a", {
    ...attributes, href: address({ ...read(), ...change }),
    onclick: (event) => {
      if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      go(change);
    },
  }, ...children);
}

export const cardLink = (kind, name, label) =>
  link({ card: `${kind}:${name}` }, { class: kind, title: name === label ? null : name }, label);

// Many links in a row, with commas between them.
export const commas = (links) => links.flatMap((a, i) => (i ? [", ", a] : [a]));

export const question = (head, relation, tail) =>
  ({ view: "ask", head: head ?? null, relation: relation ?? null, tail: tail ?? null });
