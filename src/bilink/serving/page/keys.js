// @ts-check
// The keyboard: through the rows, decisions on them, into a card and back.

import { KINDS, decide, decisionOf, reviewing, undo } from "./decisions.js";
import { go, now } from "./links.js";
import { rowOf } from "./rows.js";

/** @type {Element|null} */
let last = null; // the row that was left last
/** @type {Element|null} */
let opener = null; // what a card was opened from

/** @returns {HTMLElement[]} */
const rows = () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#answers .rows > li, #answers tbody > tr")])
  .filter((item) => rowOf.has(item) && item.checkVisibility());

/** @param {Element|null|undefined} item */
function enter(item) {
  const target = /** @type {HTMLElement|null|undefined} */ (item?.querySelector(".what a"));
  if (!target) return false;
  target.focus();
  item?.scrollIntoView({ block: "nearest" });
  return true;
}

/** The row that the focus is in, or was. */
function current() {
  const here = document.activeElement?.closest("#answers .rows > li, #answers tbody > tr");
  if (here && rowOf.has(here)) return here;
  return last?.isConnected ? last : null;
}

/** @param {number} by */
function step(by) {
  const all = rows();
  const at = all.indexOf(/** @type {any} */ (current()));
  return enter(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))]);
}

/** The first answer, for those who asked by the keyboard. */
export const enterFirst = () => enter(rows()[0]);

/** Remember where a card is opened from. */
export function remember() {
  const focus = document.activeElement;
  if (focus && focus !== document.body && !focus.closest("#card")) opener = focus;
}

/** Close the card, and go back to where it was opened. */
export function closeCard() {
  go({ card: null });
  if (opener?.isConnected) /** @type {HTMLElement} */ (opener).focus();
  else if (!enter(current())) document.getElementById("main")?.focus();
}

/** @param {string} key */
function act(key) {
  if (key === "j") return step(1);
  if (key === "k") return step(-1);
  if (key === "/") {
    const box = /** @type {HTMLElement|null} */ ([...document.querySelectorAll("#ask input[role=combobox], .ways input")].find((e) => e.checkVisibility()));
    box?.focus();
    return Boolean(box);
  }
  const item = current();
  if (key === "w" && item) {
    /** @type {HTMLElement|null} */ (item.querySelector("[aria-expanded]"))?.click();
    return true;
  }
  if (!reviewing) return false;
  if (key === "z") { undo(); return true; }
  const kind = KINDS.find(([, , , letter]) => letter.toLowerCase() === key)?.[0];
  const row = item && rowOf.get(item);
  if (!kind || !row) return false;
  if (decisionOf(row) !== kind) decide([[row, kind]]);
  step(1);
  return true;
}

/** Out of the card, or out of a box to the answers.  @param {boolean} types */
function escape(types) {
  if (now().card) closeCard();
  else if (types) { if (!enter(current())) step(1); }
  else return false;
  return true;
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.defaultPrevented || event.altKey || event.isComposing) return;
  const types = Boolean(/** @type {Element} */ (event.target).closest("input:not([type=checkbox]):not([type=file]), select, textarea, canvas"));
  if (event.key === "Escape") {
    if (escape(types)) event.preventDefault();
    return;
  }
  if (types) return;
  const undoes = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !event.shiftKey;
  if ((event.ctrlKey || event.metaKey) && !undoes) return;
  if (act(event.key.toLowerCase())) event.preventDefault();
}

export function listen() {
  document.addEventListener("keydown", pressed);
  document.addEventListener("focusin", (event) => {
    const item = /** @type {Element} */ (event.target).closest("#answers .rows > li, #answers tbody > tr");
    if (!item || !rowOf.has(item)) return;
    last?.classList.remove("current");
    last = item;
    item.classList.add("current");
  });
}
