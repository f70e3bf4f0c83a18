// @ts-check
// An entity among its neighbours: a drawing that grows by clicks.

import { announce, download, el, quiet, show, svg } from "./dom.js";
import { percent, plural, short } from "./format.js";
import { fit, overlap, placeLabels, settle } from "./layout.js";
import { cardLink, link, question } from "./links.js";
import { get } from "./store.js";

const COLOURS = 10;
const MOST = 60; // nodes
const HEIGHT = 15; // of a label
/** @typedef {{name: string, label: string, facts: number, x: number, y: number, r: number, open?: boolean}} Node_ */
/** @typedef {{head: string, relation: string, tail: string, probability?: number|null, bend?: number}} Edge */

const pen = document.createElement("canvas").getContext("2d");

/** @param {string} text @param {boolean} bold */
function width(text, bold) {
  if (!pen) return text.length * 7;
  pen.font = `${bold ? 600 : 400} 12px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width + 4;
}

export class Neighbourhood {
  /** @param {any} found @param {{wide?: number, high?: number, large?: boolean, signal?: AbortSignal}} [options] */
  constructor(found, { wide = 400, high = 380, large = false, signal } = {}) {
    this.wide = wide;
    this.high = high;
    this.large = large;
    this.signal = signal;
    /** @type {Map<string, Node_>} */
    this.nodes = new Map();
    /** @type {Map<string, Edge>} */
    this.edges = new Map();
    /** @type {Map<string, string>} */
    this.relations = new Map();
    /** @type {string|null} */
    this.chosen = null;
    this.picture = svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "group" });
    this.about = el("div", { class: "about-node", "aria-live": "polite" });
    this.key = el("ul", { class: "key" });
    this.add(found);
    const [first] = found.nodes;
    this.first = first.name;
    const start = this.nodes.get(first.name);
    if (start) start.open = true;
    this.arrangeNodes();
    this.node = el("figure", { class: "neighbourhood" }, this.picture, this.about, this.key,
      el("p", { class: "take" },
        !large && link({ view: "graph", head: first.name }, { class: "quiet" }, "Larger"),
        quiet("Likely links", () => this.predict(this.chosen ?? this.first), { title: "Draw the most probable new facts, dashed" }),
        quiet("SVG", () => this.save("svg")), quiet("PNG", () => this.save("png"))));
    this.draw();
  }

  /** @param {any} found @param {Node_} [from] */
  add(found, from) {
    /** @type {{name: string, label: string, facts: number}[]} */
    const rows = found.nodes;
    let added = 0;
    rows.forEach((row, i) => {
      if (this.nodes.has(row.name) || this.nodes.size >= MOST) return;
      added++;
      const angle = 2.4 * (i + 1), far = from ? 40 : 100 + i;
      this.nodes.set(row.name, { ...row, r: 5,
        x: (from?.x ?? this.wide / 2) + (i || from ? far * Math.cos(angle) : 0),
        y: (from?.y ?? this.high / 2) + (i || from ? far * Math.sin(angle) : 0) });
    });
    for (const { head, relation, tail } of found.edges) {
      this.link({ head: rows[head].name, relation: found.relations[relation].name, tail: rows[tail].name }, found.relations[relation].label);
    }
    return added;
  }

  /** @param {Edge} edge @param {string} label */
  link(edge, label) {
    const { head, relation, tail } = edge;
    if (head === tail || !this.nodes.has(head) || !this.nodes.has(tail)) return false;
    const ends = [head, tail].sort();
    const key = JSON.stringify([...ends, relation]); // a symmetric pair is one line
    if (this.edges.has(key)) return false;
    this.relations.set(relation, label);
    this.edges.set(key, edge);
    return true;
  }

  arrangeNodes() {
    const nodes = [...this.nodes.values()];
    const at = new Map([...this.nodes.keys()].map((name, i) => [name, i]));
    const edges = [...this.edges.values()].map(({ head, tail }) => /** @type {[number, number]} */ ([at.get(head) ?? 0, at.get(tail) ?? 0]));
    if (nodes.length > 1) {
      settle(nodes, edges, { wide: this.wide, high: this.high });
      fit(nodes, { wide: this.wide, high: this.high, side: Math.min(80, this.wide / 5), edge: 22 });
    }
  }

  /** The class of a relation's colour: the most frequent ten have their own, the others share one. */
  colours() {
    /** @type {Map<string, number>} */
    const uses = new Map();
    for (const { relation } of this.edges.values()) uses.set(relation, (uses.get(relation) ?? 0) + 1);
    const order = [...uses.keys()].sort((a, b) => (uses.get(b) ?? 0) - (uses.get(a) ?? 0));
    return { order, of: new Map(order.map((r, i) => [r, i < COLOURS ? `c${i}` : "other"])) };
  }

  draw() {
    const { order, of } = this.colours();
    const nodes = [...this.nodes.values()];
    for (const node of nodes) node.r = node.name === this.first ? 8 : node.open ? 7 : 5;
    const texts = nodes.map((node) => short(node.label, 24));
    const ranked = nodes.map((node, i) => i).sort((a, b) => Number(nodes[b].name === this.chosen) - Number(nodes[a].name === this.chosen) || Number(nodes[b].open ?? 0) - Number(nodes[a].open ?? 0) || a - b);
    const predicted = [...this.edges.values()].filter((edge) => edge.probability !== undefined);
    this.bend();
    /** @type {import("./layout.js").Box[]} */
    const taken = nodes.map(({ x, y, r }) => ({ left: x - r, top: y - r, right: x + r, bottom: y + r }));
    const chances = predicted.map((edge) => this.chance(edge, taken));
    const places = placeLabels(ranked.map((i) => nodes[i]), ranked.map((i) => width(texts[i], i === 0 || Boolean(nodes[i].open))), HEIGHT, this,
      chances.map(({ box }) => box));
    const placed = new Map(ranked.map((i, n) => [i, places[n]]));
    const held = /** @type {any} */ (document.activeElement)?.closest?.(".node")?.dataset.name;
    show(this.picture,
      [...this.edges.values()].map((edge) => this.line(edge, of.get(edge.relation) ?? "other")),
      chances.map(({ x, y, text }) => svg("text", { class: "chance", x, y, "text-anchor": "middle", "dominant-baseline": "central" }, text)),
      nodes.map((node, i) => this.dot(node, texts[i], placed.get(i) ?? null)));
    this.picture.setAttribute("aria-label", `${this.nodes.get(this.first)?.label} and ${plural(nodes.length - 1, "neighbour")}`);
    const rest = order.length - COLOURS;
    show(this.key, order.slice(0, COLOURS).map((r) => el("li", null, el("i", { class: of.get(r) }), el("bdi", null, this.relations.get(r)))),
      rest > 0 && el("li", null, el("i", { class: "other" }), `${plural(rest, "other relation")}`),
      predicted.length > 0 && el("li", null, el("i", { class: "dashed" }), "predicted, with its probability"));
    if (held) /** @type {any[]} */ ([...this.picture.querySelectorAll(".node")]).find((g) => g.dataset.name === held)?.focus();
  }

  /** Edges between the same two nodes bend away from each other. */
  bend() {
    /** @type {Map<string, Edge[]>} */
    const pairs = new Map();
    for (const edge of this.edges.values()) {
      const key = JSON.stringify([edge.head, edge.tail].sort());
      pairs.set(key, [...(pairs.get(key) ?? []), edge]);
    }
    for (const edges of pairs.values()) {
      edges.forEach((edge, i) => { edge.bend = 26 * (i - (edges.length - 1) / 2) * (edge.head < edge.tail ? 1 : -1); });
    }
  }

  /** The point of an edge that its line is drawn towards.  @param {Edge} edge */
  control(edge) {
    const a = this.at(edge.head), b = this.at(edge.tail);
    const dx = b.x - a.x, dy = b.y - a.y, far = Math.hypot(dx, dy) || 1, bend = edge.bend ?? 0;
    return { x: (a.x + b.x) / 2 - (dy / far) * bend, y: (a.y + b.y) / 2 + (dx / far) * bend };
  }

  /** Where a predicted edge carries its probability: near its middle, on nothing else.
   * @param {Edge} edge @param {import("./layout.js").Box[]} taken */
  chance(edge, taken) {
    const a = this.at(edge.head), b = this.at(edge.tail), c = this.control(edge);
    const text = typeof edge.probability === "number" ? percent(edge.probability) : "?";
    const w = width(text, true);
    const places = [0.5, 0.42, 0.58, 0.34, 0.66, 0.74, 0.26].map((t) => {
      const [p, q, r] = [(1 - t) * (1 - t), 2 * t * (1 - t), t * t];
      const x = p * a.x + q * c.x + r * b.x, y = p * a.y + q * c.y + r * b.y;
      return { x, y, text, box: { left: x - w / 2, right: x + w / 2, top: y - HEIGHT / 2, bottom: y + HEIGHT / 2 } };
    });
    const found = places.find(({ box }) => !taken.some((other) => overlap(box, other))) ?? places[0];
    taken.push(found.box);
    return found;
  }

  /** @param {string} name @returns {Node_} */
  at(name) { return /** @type {Node_} */ (this.nodes.get(name)); }

  /** @param {Edge} edge @param {string} colour */
  line(edge, colour) {
    const a = this.at(edge.head), b = this.at(edge.tail);
    const c = this.control(edge);
    const predicted = edge.probability !== undefined;
    return svg("path", { class: `edge ${colour}${predicted ? " predicted" : ""}`, fill: "none", d: `M${a.x.toFixed(1)} ${a.y.toFixed(1)}Q${c.x.toFixed(1)} ${c.y.toFixed(1)} ${b.x.toFixed(1)} ${b.y.toFixed(1)}` },
      svg("title", null, `${a.label} — ${this.relations.get(edge.relation)} → ${b.label}${predicted && typeof edge.probability === "number" ? `: ${percent(edge.probability)}` : ""}`));
  }

  /** @param {Node_} node @param {string} text @param {import("./layout.js").Box|null} box */
  dot(node, text, box) {
    const choose = () => this.choose(node.name);
    return svg("g", {
      class: `node${node.name === this.first ? " centre" : ""}${node.open ? " open" : ""}${node.name === this.chosen ? " chosen" : ""}`,
      "data-name": node.name, tabindex: 0, role: "button",
      "aria-label": `${node.label}${node.open ? "" : ": add its neighbours"}`,
      onclick: choose,
      onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } },
    },
    svg("title", null, node.label),
    svg("circle", { class: "touch", cx: node.x, cy: node.y, r: 14, fill: "none", "pointer-events": "all" }),
    svg("circle", { cx: node.x, cy: node.y, r: node.r }),
    box && svg("text", { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2, "text-anchor": "middle", "dominant-baseline": "central" }, text));
  }

  /** Show what a node is, and its neighbours.  @param {string} name */
  async choose(name) {
    this.chosen = name;
    const node = this.at(name);
    show(this.about, el("p", null, cardLink("entity", name, node.label), " has ", plural(node.facts, "fact"), "."));
    if (!node.open && this.nodes.size < MOST) {
      try {
        const found = await get("neighbourhood", { name, size: 9 }, this.signal);
        node.open = true;
        const added = this.add(found, node);
        this.arrangeNodes();
        announce(`${plural(added, "neighbour")} of ${node.label} added`);
      } catch (error) {
        if (/** @type {Error} */ (error).name !== "AbortError") show(this.about, el("p", { role: "alert" }, /** @type {Error} */ (error).message));
      }
    } else if (!node.open) show(this.about, this.about.firstChild, el("p", { class: "small" }, "The drawing is full."));
    this.draw();
  }

  /** Draw the most probable new facts of an entity.  @param {string} name */
  async predict(name) {
    const node = this.at(name);
    show(this.about, el("p", { class: "waiting" }, `Asking what is likely for ${node.label} …`));
    try {
      const card = await get("entity", { name }, this.signal);
      const groups = [...card.groups].filter((g) => g.side !== "both").sort((a, b) => a.count - b.count || 0).slice(0, 8);
      const found = await Promise.all(groups.map((g) => get("query",
        { [g.side === "head" ? "tail" : "head"]: name, relation: g.relation.name, k: 2, new: true }, this.signal)));
      const rows = found.flatMap((f) => f.answers)
        .filter((row) => (row.probability ?? 0) >= 0.1)
        .sort((a, b) => (b.probability ?? 0) - (a.probability ?? 0)).slice(0, 6);
      let added = 0;
      for (const row of rows) {
        const other = row.head === name ? "tail" : "head";
        if (!this.nodes.has(row[other])) this.add({ nodes: [{ name: row[other], label: row[`${other}_label`], facts: row.facts ?? 0 }], edges: [], relations: {} }, node);
        if (this.link({ head: row.head, relation: row.relation, tail: row.tail, probability: row.probability }, row.relation_label)) added++;
      }
      if (added) this.arrangeNodes();
      this.draw();
      show(this.about, rows.length
        ? el("ul", { class: "plain-list" }, rows.map((row) => el("li", null,
          link(question(row.head, row.relation, row.tail), null, el("bdi", null, row.head_label), " ", el("bdi", null, row.relation_label), " ", el("bdi", null, row.tail_label)), ` ${percent(row.probability)}`)))
        : el("p", null, "Nothing new is likely here."));
    } catch (error) {
      if (/** @type {Error} */ (error).name !== "AbortError") show(this.about, el("p", { role: "alert" }, /** @type {Error} */ (error).message));
    }
  }

  /** The drawing as a text of its own, with the colours of the page. */
  asSvg() {
    const copy = /** @type {SVGSVGElement} */ (this.picture.cloneNode(true));
    const shapes = this.picture.querySelectorAll("path, circle, text");
    copy.querySelectorAll("path, circle, text").forEach((shape, i) => {
      const style = getComputedStyle(shapes[i]);
      const names = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", ...(shape.tagName === "text" ? ["font-size", "font-family", "font-weight", "paint-order"] : [])];
      for (const name of names) shape.setAttribute(name, style.getPropertyValue(name));
    });
    copy.querySelectorAll("[tabindex]").forEach((g) => { for (const name of ["tabindex", "role", "data-name", "aria-label"]) g.removeAttribute(name); });
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", String(this.wide));
    copy.setAttribute("height", String(this.high));
    copy.prepend(svg("rect", { width: this.wide, height: this.high, fill: getComputedStyle(document.documentElement).backgroundColor }));
    return new XMLSerializer().serializeToString(copy);
  }

  /** @param {"svg"|"png"} kind */
  async save(kind) {
    const text = this.asSvg().replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd").toWellFormed();
    if (kind === "svg") { download("neighbourhood.svg", text, "image/svg+xml"); return; }
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = el("canvas", { width: 3 * this.wide, height: 3 * this.high });
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => { if (blob) download("neighbourhood.png", blob, "image/png"); });
  }
}

/** @param {any} found @param {ConstructorParameters<typeof Neighbourhood>[1]} [options] */
export const neighbourhood = (found, options) =>
  (found.nodes.length < 2 ? el("p", { class: "under" }, "No facts to draw.") : new Neighbourhood(found, options).node);
