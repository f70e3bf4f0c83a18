// Questions to the server.

export function get(path, params = {}, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) query.set(name, value);
  }
  return ask(`${path}?${query}`, { signal });
}

export const post = (path, body, signal) =>
  ask(path, { signal, method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

async function ask(address, options) {
  let response;
  try {
    response = await fetch(`api/${address}`, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is “bilink serve” still running?");
  }
  let found = null;
  try {
    found = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error; // else it is told below
  }
  if (!response.ok || found === null) {
    const sentence = found?.error ?? `The server answered with status ${response.status}.`;
    throw Object.assign(new Error(sentence[0].toUpperCase() + sentence.slice(1)), { status: response.status });
  }
  return found;
}

// The label of a name that came with the address.
const labels = { entity: new Map(), relation: new Map() };
export const learn = (kind, row) => labels[kind].set(row.name, row.label);
export async function labelOf(kind, name) {
  if (!labels[kind].has(name)) {
    const { matches } = await get("search", { text: name.slice(0, 500), kind, k: 8 });
    matches.forEach((row) => learn(kind, row));
  }
  return labels[kind].get(name) ?? name;
}
