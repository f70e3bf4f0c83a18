// @ts-check
// The state of the page is its address; here is how one is read from the other.

/**
 * @typedef {Object} State
 * @property {string} view
 * @property {string|null} run
 * @property {string|null} card As “entity:NAME” or “relation:NAME”.
 * @property {string|null} head
 * @property {string|null} relation
 * @property {string|null} tail
 * @property {boolean} new New facts only.
 * @property {boolean} any Also entities that do not fit.
 * @property {number} k How many rows.
 * @property {number} from The first row.
 * @property {string|null} sort
 * @property {string|null} find What rows contain.
 * @property {number} least The lowest probability, in percent.
 * @property {string|null} only The relation of rows.
 * @property {string|null} side
 * @property {string|null} part A part of the review.
 * @property {string|null} kind
 * @property {string|null} order
 * @property {string|null} decision
 */

export const FEW = 10;
export const MOST = 1000;

const LIST = ["k", "from", "sort", "find", "least", "only"];
const QUESTION = ["head", "relation", "tail"];
/** What belongs to each view.  @type {Record<string, string[]>} */
export const VIEWS = {
  ask: [...QUESTION, "new", "any", ...LIST],
  new: ["any", ...LIST],
  doubts: ["relation", ...LIST],
  map: ["relation"],
  review: ["part", "kind", "order", "relation", "decision", ...LIST],
  compare: [...QUESTION, "k"],
  facts: ["head", "relation", "side", ...LIST],
  graph: ["head"],
};
const SHARED = ["view", "run", "card"];
const ALL = [...new Set([...SHARED, ...Object.values(VIEWS).flat()])];
const FLAGS = ["new", "any"];
/** @type {Record<string, number>} */
const NUMBERS = { k: FEW, from: 0, least: 0 };

/** How many rows a list has at first.  @param {string} view */
export const few = (view) => ({ facts: 50, doubts: 30, review: 20 })[view] ?? FEW;

/** @param {string} search @returns {State} */
export function read(search) {
  const given = new URLSearchParams(search);
  /** @type {any} */
  const state = {};
  for (const key of ALL) state[key] = given.get(key) || null;
  if (!Object.hasOwn(VIEWS, state.view ?? "")) state.view = "ask";
  for (const key of FLAGS) state[key] = state[key] === "1";
  state.k = bounded(state.k, few(state.view), 1, MOST);
  state.from = bounded(state.from, 0, 0, 1e9);
  state.least = bounded(state.least, 0, 0, 100);
  const kept = [...SHARED, ...VIEWS[state.view]];
  for (const key of ALL) {
    if (!kept.includes(key)) state[key] = FLAGS.includes(key) ? false : NUMBERS[key] ?? null;
  }
  return state;
}

/** @param {string|null} text @param {number} otherwise @param {number} low @param {number} high */
function bounded(text, otherwise, low, high) {
  const n = Number.parseInt(text ?? "", 10);
  return Number.isNaN(n) ? otherwise : Math.min(high, Math.max(low, n));
}

/** @param {Partial<State>} state */
export function address(state) {
  const query = new URLSearchParams();
  const view = state.view ?? "ask";
  for (const key of [...SHARED, ...VIEWS[view]]) {
    const value = /** @type {any} */ (state)[key];
    const usual = key === "view" ? "ask" : key === "k" ? few(view) : NUMBERS[key] ?? null;
    if (value && value !== usual) query.set(key, value === true ? "1" : String(value));
  }
  const text = query.toString();
  return text ? `?${text}` : "?";
}

/** The state after a change.  Another question starts its list anew; another view starts empty.
 * @param {State} state @param {Partial<State>} change @returns {State} */
export function next(state, change) {
  const moves = change.view !== undefined && change.view !== state.view;
  const asks = [...QUESTION, "side", "kind", "order", "part", "decision"].some((key) =>
    key in change && /** @type {any} */ (change)[key] !== /** @type {any} */ (state)[key]);
  const list = Object.fromEntries(LIST.map((key) => [key, key === "k" ? few(change.view ?? state.view) : NUMBERS[key] ?? null]));
  /** @type {any} */
  let base = state;
  if (moves) base = { run: state.run };
  else if (asks) base = { ...state, ...list, k: state.view === "ask" ? state.k : list.k };
  return read(address({ ...base, ...change }).slice(1));
}

/** What a question leaves open.  @param {Partial<State>} state */
export function asked({ head, relation, tail }) {
  if (head && tail) return "relation";
  if (head) return "tail";
  if (tail) return "head";
  return relation ? "pair" : "fact";
}
