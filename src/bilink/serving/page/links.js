// @ts-check
// Links that change the state of the page; they are ordinary addresses, so that they can be shared.

import { el } from "./dom.js";
import { address, next, read } from "./state.js";

/** @typedef {import("./state.js").State} State */

/** @type {(state: State, change: Partial<State>) => void} */
let follow = () => {};
/** @param {typeof follow} f */
export const onGo = (f) => { follow = f; };

export const now = () => read(location.search);

/** @param {Partial<State>} change @param {boolean} [instead] Without a step of its own in the history. */
export function go(change, instead = false) {
  const state = next(now(), change);
  if (instead) history.replaceState(null, "", address(state));
  else history.pushState(null, "", address(state));
  follow(state, change);
}

/** Whether a click is the browser's, such as one that opens a tab.  @param {MouseEvent} event */
export const isForBrowser = (event) => event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;

/** @param {Partial<State>} change @param {Record<string, unknown>|null} attributes @param {...unknown} children */
export function link(change, attributes, ...children) {
  return el("a", {
    ...attributes, href: address(next(now(), change)),
    onclick: (/** @type {MouseEvent} */ event) => {
      if (isForBrowser(event)) return;
      event.preventDefault();
      go(change);
    },
  }, ...children);
}

/** @param {string} kind @param {string} name @param {string} label */
export const cardLink = (kind, name, label) =>
  link({ card: `${kind}:${name}` }, { class: kind, title: name === label ? null : name }, el("bdi", null, label));

/** Many links in a row, with commas between them.  @param {unknown[]} links */
export const commas = (links) => links.flatMap((a, i) => (i ? [", ", a] : [a]));

/** @param {string|null} [head] @param {string|null} [relation] @param {string|null} [tail] */
export const question = (head, relation, tail) =>
  ({ view: "ask", head: head ?? null, relation: relation ?? null, tail: tail ?? null });
