// @ts-check
// Elements.  Data reaches the page as text only, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * @template {Element} T
 * @param {T} node @param {Record<string, any>|null|undefined} attributes @param {unknown[]} children
 * @returns {T}
 */
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, v] of Object.entries(value)) /** @type {any} */ (node).style.setProperty(key, v);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/** @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag @param {Record<string, any>|null} [attributes] @param {...unknown} children
 * @returns {HTMLElementTagNameMap[K]} */
export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** @template {keyof SVGElementTagNameMap} K
 * @param {K} tag @param {Record<string, any>|null} [attributes] @param {...unknown} children
 * @returns {SVGElementTagNameMap[K]} */
export const svg = (tag, attributes, ...children) =>
  fill(/** @type {any} */ (document.createElementNS(SVG, tag)), attributes, children);

/** @template {Element} T @param {T} node @param {...unknown} children */
export function show(node, ...children) {
  node.replaceChildren();
  return fill(node, null, children);
}

/** @param {string} id @returns {any} */
export const $ = (id) => document.getElementById(id);

/** A button that looks like text.
 * @param {string} text @param {(event: Event) => void} onclick @param {Record<string, any>} [more] */
export const quiet = (text, onclick, more = {}) =>
  el("button", { type: "button", class: "quiet", ...more, onclick }, text);

/** A choice of one.
 * @param {string} label @param {[string, string][]} options @param {string} chosen @param {(value: string) => void} changed */
export function choice(label, options, chosen, changed) {
  const select = el("select", { onchange: () => changed(select.value) },
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
  return el("label", { class: "choice" }, el("span", null, label), select);
}

// A quiet picture of waiting, and of what went wrong.
export const waiting = (text = "Looking") =>
  el("p", { class: "waiting" }, el("span", { class: "dots", "aria-hidden": true }), text, " …");

/** @param {any} error @param {(() => void)|null} [again] @param {((row: any) => Node)|null} [suggest] */
export function trouble(error, again, suggest) {
  const links = suggest && error.suggestions?.length > 0
    && error.suggestions.map((/** @type {any} */ row, /** @type {number} */ i) => [i > 0 && " or ", suggest(row)]);
  const message = links ? [error.message.replace(/(; did you mean .*|\.)$/is, ""), "; did you mean ", links, "?"] : error.message;
  return el("div", { class: "trouble", role: "alert" }, el("p", { dir: "auto" }, message),
    again && !links && quiet("Try again", again));
}

/** @param {...unknown} children */
export const note = (...children) => el("div", { class: "note" }, ...children);

/** Say something to those who listen.  @param {string} text */
export function announce(text) {
  const place = $("says");
  place.textContent = "";
  setTimeout(() => { place.textContent = text; }, 60);
}

/** Keep a text in a file.  @param {string} name @param {BlobPart} content @param {string} type */
export function download(name, content, type) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const a = el("a", { href: address, download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
