// The page that describes the HTTP interface: made of the schema, and nothing from elsewhere.

const SHOWN = 20_000; // characters of an answer

function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

let schema;
const resolved = (part) =>
  part?.$ref ? part.$ref.slice(2).split("/").reduce((place, key) => place[key], schema) : part;

/** The kinds of values that a parameter takes, without null. */
function kinds(part) {
  const found = resolved(part) ?? {};
  return found.anyOf ? found.anyOf.map(resolved).filter((each) => each.type !== "null") : [found];
}

function limits(part) {
  const [kind] = kinds(part);
  const words = [kind.type ?? "object"];
  if (kind.minimum !== undefined) words.push(`from ${kind.minimum}`);
  if (kind.maximum !== undefined) words.push(`to ${kind.maximum.toLocaleString("en")}`);
  if (kind.maxLength !== undefined) words.push(`at most ${kind.maxLength} characters`);
  if (part.default !== undefined && part.default !== null) words.push(`else ${part.default}`);
  return words.join(", ");
}

function choices(part) {
  const [kind] = kinds(part);
  if (kind.enum) return kind.enum;
  return kind.type === "boolean" ? ["false", "true"] : null;
}

function field(id, parameter) {
  const options = choices(parameter.schema);
  const input = options
    ? make("select", { id }, ...options.map((value) => make("option", { value, textContent: value })))
    : make("input", { id, type: "text", placeholder: parameter.example ?? parameter.schema.examples?.[0] ?? "" });
  if (options && parameter.schema.default !== undefined) input.value = String(parameter.schema.default);
  input.name = parameter.name;
  input.required = Boolean(parameter.required);
  const label = make("label", { htmlFor: id, textContent: parameter.name + (parameter.required ? " (needed)" : "") });
  const note = `${parameter.description ?? ""} ${limits(parameter.schema)}`.trim();
  return make("div", { className: "field" }, label, input, make("small", { textContent: note }));
}

/** An example of what a schema describes. */
function example(part, depth = 0) {
  const found = kinds(part)[0] ?? {};
  if (found.examples?.length) return found.examples[0];
  if (found.default !== undefined) return found.default;
  if (found.enum) return found.enum[0];
  if (found.prefixItems) return found.prefixItems.map((item) => example(item, depth + 1));
  if (found.type === "array") return depth > 4 ? [] : [example(found.items, depth + 1)];
  if (found.type === "object" || found.properties) {
    const names = Object.keys(found.properties ?? {}).filter((name) => depth < 4 && (found.required ?? []).includes(name));
    return Object.fromEntries(names.map((name) => [name, example(found.properties[name], depth + 1)]));
  }
  return { string: "", integer: 1, number: 0.1, boolean: false }[found.type] ?? null;
}

function bodyField(id, operation) {
  const content = resolved(operation.requestBody)?.content;
  if (!content) return null;
  const [kind, media] = Object.entries(content)[0];
  const value = kind === "application/json" ? JSON.stringify(example(media.schema), null, 2) : "";
  const text = make("textarea", { id, name: "body", value, spellcheck: false });
  text.dataset.kind = kind;
  return make("div", { className: "field" }, make("label", { htmlFor: id, textContent: "body" }), text);
}

async function send(form, path, method, output) {
  const query = new URLSearchParams();
  const options = { method: method.toUpperCase() };
  for (const input of form.elements) {
    if (input.name === "body") {
      options.body = input.value;
      options.headers = { "content-type": input.dataset.kind };
    } else if (input.name && input.value !== "" && input.value !== input.dataset.usual) {
      query.set(input.name, input.value);
    }
  }
  const address = path.slice(1) + (query.size ? `?${query}` : "");
  output.hidden = false;
  output.textContent = `${options.method} /${address}\n…`;
  try {
    const response = await fetch(address, options);
    const text = await response.text();
    let shown = text;
    try {
      shown = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // it is no JSON
    }
    const rest = shown.length > SHOWN ? `\n… ${(shown.length - SHOWN).toLocaleString("en")} more characters` : "";
    output.textContent = `${options.method} /${address}\n${response.status} ${response.statusText}\n\n${shown.slice(0, SHOWN)}${rest}`;
  } catch {
    output.textContent = "The server does not answer. Is “bilink serve” still running?";
  }
}

function card(path, method, operation) {
  const id = operation.operationId;
  const form = make("form");
  for (const parameter of operation.parameters ?? []) form.append(field(`${id}-${parameter.name}`, parameter));
  const body = bodyField(`${id}-body`, operation);
  if (body) form.append(body);
  for (const input of form.elements) if (input.tagName === "SELECT") input.dataset.usual = input.value;
  const output = make("pre", { hidden: true, tabIndex: 0 });
  output.setAttribute("aria-label", `The answer to ${id}`);
  form.append(make("button", { type: "submit", textContent: "Try it" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, path, method, output);
  });
  const head = make(
    "summary",
    {},
    make("code", { textContent: `${method.toUpperCase()} ${path}` }),
    make("span", { textContent: ` · ${operation.operationId}` }),
  );
  const inside = make("div", { className: "inside" }, make("p", { textContent: operation.description ?? "" }), form, output);
  return make("details", { id }, head, inside);
}

async function start() {
  const place = document.getElementById("operations");
  try {
    schema = await (await fetch("openapi.json")).json();
  } catch {
    place.textContent = "The server does not answer. Is “bilink serve” still running?";
    return;
  }
  document.getElementById("about").textContent = `${schema.info.title} ${schema.info.version}. ${schema.info.description}`;
  const groups = new Map((schema.tags ?? []).map((tag) => [tag.name, { tag, cards: [] }]));
  for (const [path, operations] of Object.entries(schema.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const name = operation.tags?.[0] ?? "other";
      if (!groups.has(name)) groups.set(name, { tag: { name }, cards: [] });
      groups.get(name).cards.push(card(path, method, operation));
    }
  }
  place.replaceChildren();
  for (const { tag, cards } of groups.values()) {
    if (cards.length) place.append(make("h2", { textContent: tag.name }), make("p", { textContent: tag.description ?? "" }), ...cards);
  }
  const asked = document.getElementById(location.hash.slice(1));
  if (asked) asked.open = true;
}

start();
