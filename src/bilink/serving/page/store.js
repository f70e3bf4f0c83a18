// @ts-check
// Questions to the server: the one place that fetches, keeps answers and gives up on them.

import { queryOf, sentence } from "./format.js";

const KEPT = 60; // answers
const LIVE = /^(info|decisions|queue|update|search)/; // never kept: they change, or there are too many
/** @type {Map<string, any>} */
const answers = new Map();
let base = "api/"; // of an older server
/** @type {string|null} */
let run = null;

/** The sentence of the server, with its status, code and suggestions. */
export class Refusal extends Error {
  /** @param {string} text @param {number} status @param {any} [found] */
  constructor(text, status, found) {
    super(text);
    this.status = status;
    /** @type {string|undefined} */
    this.code = found?.code;
    /** @type {{name: string, label: string}[]} */
    this.suggestions = found?.suggestions ?? [];
  }
}

/** Which run is asked from now on.  @param {string|null} id */
export const chooseRun = (id) => { run = id; };

/** Whether the server has pages of facts, several runs and reviews. */
export const isNew = () => base !== "api/";

/** @param {string} path @param {Record<string, unknown>} params */
const addressOf = (path, params) => {
  const query = queryOf(run === null || path === "info" ? params : { ...params, run });
  return query ? `${path}?${query}` : path;
};

/** What others would ask to get the same.
 * @param {string} path @param {Record<string, unknown>} params */
export const fullAddress = (path, params) => new URL(base + addressOf(path, params), location.href.split(/[?#]/)[0]).href;

/** What the server has, and where: it tells in its answer whether it knows the newer addresses. */
export async function start() {
  const info = await ask("info");
  if (info.runs) base = "api/v1/";
  return info;
}

/** @param {string} path @param {Record<string, unknown>} [params] @param {AbortSignal} [signal]
 *  @param {boolean} [anew] Even if there is an answer. */
export async function get(path, params = {}, signal, anew = false) {
  const address = addressOf(path, params);
  if (!anew && answers.has(address)) {
    const kept = answers.get(address);
    answers.delete(address); // and put it at the end
    answers.set(address, kept);
    return kept;
  }
  const found = await ask(address, { signal });
  if (!LIVE.test(path)) {
    answers.set(address, found);
    if (answers.size > KEPT) answers.delete(answers.keys().next().value ?? "");
  }
  return found;
}

/** @param {string} path @param {unknown} body @param {AbortSignal} [signal] */
export const post = (path, body, signal) =>
  ask(addressOf(path, {}), { signal, method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

/** @param {string} path @param {Record<string, unknown>} params @param {string} text */
export const send = (path, params, text) =>
  ask(addressOf(path, params), { method: "POST", headers: { "content-type": "text/plain; charset=utf-8", "x-bilink": "1" }, body: text });

/** Forget all answers, since the run changed. */
export const forget = () => answers.clear();

/** @param {string} address @param {RequestInit} [options] */
async function ask(address, options) {
  let response;
  try {
    response = await fetch(base + address, options);
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") throw error;
    throw new Refusal("The server does not answer. Is “bilink serve” still running?", 0);
  }
  let found = null;
  try {
    found = await response.json();
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") throw error; // else see below
  }
  if (!response.ok || found === null) {
    throw new Refusal(sentence(found?.error ?? `The server answered with status ${response.status}.`), response.status, found);
  }
  return found;
}

// The label of a name that came with the address.
/** @type {Record<string, Map<string, string>>} */
const labels = { entity: new Map(), relation: new Map() };

/** @param {string} kind @param {{name: string, label: string}} row */
export const learn = (kind, row) => { labels[kind].set(row.name, row.label); };

/** @param {string} kind @param {string} name @returns {Promise<string>} */
export async function labelOf(kind, name) {
  if (!labels[kind].has(name)) {
    try {
      const { matches } = await get("search", { text: name.slice(0, 500), kind, k: 8 });
      for (const row of matches) learn(kind, row);
    } catch { /* the name will do */ }
  }
  return labels[kind].get(name) ?? name;
}
