// Elements and numbers.  Data reaches the page as text only, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, v] of Object.entries(value)) node.style.setProperty(key, v);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export const el = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);

export const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

export const show = (node, ...children) => {
  node.replaceChildren();
  return fill(node, null, children);
};

const whole = new Intl.NumberFormat("en");
export const count = (n) => whole.format(n);

export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

export function percent(p) {
  if (p === 0 || p === 1) return `${100 * p} %`;
  if (p >= 0.9995) return "> 99.9 %";
  if (p < 0.0005) return "< 0.1 %";
  const value = 100 * p;
  return `${value < 10 || value > 99 ? value.toFixed(1) : Math.round(value)} %`;
}

export const short = (text, n = 40) => (text.length <= n ? text : text.slice(0, n - 1) + "…");

// A quiet picture of waiting, and of what went wrong.
export const waiting = (text = "Looking") =>
  el("p", { class: "waiting", role: "status" }, el("span", { class: "dots", "aria-hidden": true }), text, " …");

export const trouble = (error, again) =>
  el("div", { class: "trouble", role: "alert" },
    el("p", null, error.message),
    again && el("button", { type: "button", class: "quiet", onclick: again }, "Try again"));

export const note = (...children) => el("div", { class: "note" }, ...children);
