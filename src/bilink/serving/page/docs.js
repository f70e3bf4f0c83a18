// @ts-check
// The page that describes the HTTP interface: made of the schema, and nothing from elsewhere.

import { $, el, show } from "./dom.js";

/** @typedef {Record<string, any>} Part A part of the schema. */

const SHOWN = 20_000; // characters of an answer
const SILENT = "The server does not answer. Is “bilink serve” still running?";

/** @type {Part} */
let schema = {};

/** @param {Part|undefined} part @returns {Part|undefined} */
const resolved = (part) =>
  part?.$ref ? part.$ref.slice(2).split("/").reduce((/** @type {Part} */ place, /** @type {string} */ key) => place[key], schema) : part;

/** The kinds of values that a parameter takes, without null.  @param {Part} part @returns {Part[]} */
function kinds(part) {
  const found = resolved(part) ?? {};
  return found.anyOf ? found.anyOf.map(resolved).filter((/** @type {Part} */ each) => each.type !== "null") : [found];
}

/** @param {Part} part */
function limits(part) {
  const [kind] = kinds(part);
  const words = [kind.const === undefined ? kind.type ?? "object" : `“${kind.const}”`];
  if (kind.minimum !== undefined) words.push(`from ${kind.minimum}`);
  if (kind.maximum !== undefined) words.push(`to ${kind.maximum.toLocaleString("en")}`);
  if (kind.maxLength !== undefined) words.push(`at most ${kind.maxLength} characters`);
  if (part.default !== undefined && part.default !== null) words.push(`else ${part.default}`);
  return words.join(", ");
}

/** @param {Part} part @returns {string[]|null} */
function choices(part) {
  const [kind] = kinds(part);
  if (kind.enum) return kind.enum;
  return kind.type === "boolean" ? ["false", "true"] : null;
}

/** @param {string} id @param {Part} parameter */
function field(id, parameter) {
  const { name, required, schema: kind } = parameter;
  const values = choices(kind);
  const placeholder = parameter.example ?? kind.examples?.[0] ?? "";
  const input = values
    ? el("select", { id, name, required }, values.map((value) => el("option", { value }, value)))
    : el("input", { id, name, required, type: "text", placeholder, value: kind.const });
  if (values && kind.default !== undefined) input.value = String(kind.default);
  if (values) input.dataset.usual = input.value;
  if (parameter.in === "header") input.dataset.header = name;
  return el("div", { class: "field" },
    el("label", { for: id }, name, required && " (needed)"), input,
    el("small", null, `${parameter.description ?? ""} ${limits(kind)}`.trim()));
}

/** An example of what a schema describes.  @param {Part} part @returns {any} */
function example(part, depth = 0) {
  const found = kinds(part)[0] ?? {};
  if (found.examples?.length) return found.examples[0];
  if (found.default !== undefined) return found.default;
  if (found.enum) return found.enum[0];
  if (found.prefixItems) return found.prefixItems.map((/** @type {Part} */ item) => example(item, depth + 1));
  if (found.type === "array") return depth > 4 ? [] : [example(found.items, depth + 1)];
  if (found.type === "object" || found.properties) {
    const names = Object.keys(found.properties ?? {}).filter((name) => depth < 4 && (found.required ?? []).includes(name));
    return Object.fromEntries(names.map((name) => [name, example(found.properties[name], depth + 1)]));
  }
  return new Map(Object.entries({ string: "", integer: 1, number: 0.1, boolean: false })).get(found.type) ?? null;
}

/** @param {string} id @param {Part} operation */
function bodyField(id, operation) {
  const content = resolved(operation.requestBody)?.content;
  if (!content) return null;
  const [kind, media] = Object.entries(content)[0];
  const text = el("textarea", { id, name: "body", spellcheck: "false", "data-kind": kind });
  text.value = kind === "application/json" ? JSON.stringify(example(media.schema), null, 2) : "";
  return el("div", { class: "field" }, el("label", { for: id }, "body"), text);
}

/** JSON with its lines, or the text as it is.  @param {string} text */
function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** @param {HTMLFormElement} form @param {string} path @param {string} method @param {HTMLElement} output */
async function send(form, path, method, output) {
  const query = new URLSearchParams();
  /** @type {Record<string, string>} */
  const headers = {};
  let body;
  for (const input of /** @type {Iterable<HTMLInputElement>} */ (form.elements)) {
    if (input.name === "body") {
      body = input.value;
      headers["content-type"] = input.dataset.kind ?? "";
    } else if (input.dataset.header) {
      headers[input.dataset.header] = input.value;
    } else if (input.name && input.value !== "" && input.value !== input.dataset.usual) {
      query.set(input.name, input.value);
    }
  }
  const address = path.slice(1) + (query.size ? `?${query}` : "");
  const asked = `${method.toUpperCase()} /${address}`;
  output.hidden = false;
  output.textContent = `${asked}\n…`;
  try {
    const response = await fetch(address, { method: method.toUpperCase(), headers, body });
    const text = readable(await response.text());
    const rest = text.length > SHOWN ? `\n… ${(text.length - SHOWN).toLocaleString("en")} more characters` : "";
    output.textContent = `${asked}\n${response.status} ${response.statusText}\n\n${text.slice(0, SHOWN)}${rest}`;
  } catch {
    output.textContent = SILENT;
  }
}

/** @param {string} path @param {string} method @param {Part} operation */
function card(path, method, operation) {
  const id = operation.operationId;
  const output = el("pre", { hidden: true, tabindex: 0, "aria-label": `The answer to ${id}` });
  const form = el("form", { onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    send(form, path, method, output);
  } },
  (operation.parameters ?? []).map((/** @type {Part} */ parameter) => field(`${id}-${parameter.name}`, parameter)),
  bodyField(`${id}-body`, operation), el("button", { type: "submit" }, "Try it"));
  return el("details", { id },
    el("summary", null, el("code", null, `${method.toUpperCase()} ${path}`), el("span", null, ` · ${id}`)),
    el("div", { class: "inside" }, el("p", null, operation.description), form, output));
}

async function start() {
  const place = $("operations");
  try {
    schema = await (await fetch("openapi.json")).json();
  } catch {
    place.textContent = SILENT;
    return;
  }
  show($("about"), `${schema.info.title} ${schema.info.version}. ${schema.info.description}`);
  /** @type {Map<string, {tag: Part, cards: Node[]}>} */
  const groups = new Map((schema.tags ?? []).map((/** @type {Part} */ tag) => [tag.name, { tag, cards: [] }]));
  for (const [path, operations] of Object.entries(/** @type {Record<string, Record<string, Part>>} */ (schema.paths))) {
    for (const [method, operation] of Object.entries(operations)) {
      const name = operation.tags?.[0] ?? "other";
      const group = groups.get(name) ?? { tag: { name }, cards: [] };
      groups.set(name, group);
      group.cards.push(card(path, method, operation));
    }
  }
  show(place, [...groups.values()].filter(({ cards }) => cards.length).map(({ tag, cards }) =>
    [el("h2", null, tag.name), el("p", null, tag.description), cards]));
  const asked = $(location.hash.slice(1));
  if (asked) asked.open = true;
}

start();
