// @ts-check
// All entities as points: a canvas that can be dragged, zoomed and clicked.

import { Combobox } from "./combobox.js";
import { announce, el, show, trouble, waiting } from "./dom.js";
import { count } from "./format.js";
import { go } from "./links.js";
import { get } from "./store.js";

const POSITIONS = ["elsewhere", "head", "tail", "head and tail"];

/** @param {any} place @param {import("./state.js").State} state @param {AbortSignal} signal @returns {Promise<void>} */
export async function map(place, state, signal) {
  if (place.dataset.map === String(state.run) && place.picture) { // only the colours or the card change
    await place.picture.colour(state.relation, signal);
    place.picture.mark(state.card);
    return;
  }
  show(place, waiting("Drawing the map"));
  try {
    const found = await get("map", { relation: state.relation }, signal);
    place.picture = new Picture(place, found, state);
    place.dataset.map = String(state.run);
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "AbortError") show(place, el("h1", null, "Map of entities"), trouble(error, () => map(place, state, signal)));
  }
}

class Picture {
  /** @param {any} place @param {any} found @param {import("./state.js").State} state */
  constructor(place, found, state) {
    this.found = found;
    this.wide = this.high = 0;
    this.waits = 0;
    this.chosen = -1;
    this.zoom = 1;
    this.x = this.y = 0; // the middle of the view
    this.over = -1;
    this.canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": "Map of entities; arrow keys move it, plus and minus zoom" });
    this.tip = el("p", { class: "tip", hidden: true });
    this.key = el("ul", { class: "key" });
    const box = el("div", { class: "box" }), search = el("div", { class: "box" });
    show(place,
      el("h1", null, "Map of entities"),
      el("p", { class: "under" },
        `What the model finds alike is near; how far apart groups are means little.${found.names.length < found.of ? ` These are the ${count(found.names.length)} best connected of ${count(found.of)} entities.` : ""}`),
      el("div", { class: "tools" }, search, box,
        el("span", { class: "zoom" },
          el("button", { type: "button", class: "quiet", "aria-label": "Zoom in", onclick: () => this.scale(1.5) }, "+"),
          el("button", { type: "button", class: "quiet", "aria-label": "Zoom out", onclick: () => this.scale(1 / 1.5) }, "−"),
          el("button", { type: "button", class: "quiet", onclick: () => this.whole() }, "whole"))),
      el("div", { class: "sea" }, this.canvas, this.tip),
      this.key);
    this.box = new Combobox(box, {
      kind: "relation", label: "Coloured by", placeholder: "clusters, or a relation",
      changed: (name) => go({ relation: name }),
    });
    this.box.set(state.relation);
    this.search = new Combobox(search, {
      kind: "entity", label: "Find", placeholder: "an entity", changed: (name) => this.find(name),
    });
    /** @type {Map<string, number>} */
    this.index = new Map(found.names.map((/** @type {string} */ name, /** @type {number} */ i) => [name, i]));
    // Points with many facts are drawn last and named first.
    /** @type {number[]} */
    this.order = [...found.names.keys()].sort((a, b) => found.facts[a] - found.facts[b]);
    this.listen();
    this.mark(state.card);
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.canvas);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", () => this.draw());
    this.legend();
  }

  /** @param {string|null} relation @param {AbortSignal} signal */
  async colour(relation, signal) {
    this.box.set(relation);
    const found = await get("map", { relation }, signal);
    this.found = found;
    this.legend();
    this.draw();
  }

  // Bring an entity to the middle, and open its card.
  /** @param {string|null} name */
  find(name) {
    if (!name) return;
    const i = this.index.get(name);
    if (i === undefined) announce("This entity is not among those drawn.");
    else {
      this.zoom = Math.max(this.zoom, 5);
      this.x = this.found.x[i];
      this.y = this.found.y[i];
    }
    go({ card: `entity:${name}` });
  }

  /** @param {string|null} card */
  mark(card) {
    const name = card?.startsWith("entity:") ? card.slice(7) : null;
    this.chosen = name === null ? -1 : this.index.get(name) ?? -1;
    this.draw();
  }

  legend() {
    const { position, cluster, labels, facts } = this.found;
    let rows;
    if (position) {
      const numbers = POSITIONS.map((_, p) => position.filter((/** @type {number} */ q) => q === p).length);
      rows = [1, 2, 3, 0].filter((p) => numbers[p]).map((p) =>
        el("li", null, el("i", { class: `p${p}` }), `${POSITIONS[p]} (${count(numbers[p])})`));
    } else {
      const best = new Map(); // a cluster is called by its best connected entities
      [...this.order].reverse().forEach((i) => {
        const names = best.get(cluster[i]) ?? [];
        if (names.length < 3) best.set(cluster[i], [...names, labels[i]]);
      });
      rows = [...best.keys()].sort((a, b) => a - b).map((c) =>
        el("li", null, el("i", { class: `c${c % 10}` }), best.get(c).join(", ") + (facts.length > 3 ? " …" : "")));
    }
    show(this.key, rows);
  }

  listen() {
    const canvas = this.canvas;
    const held = new Map(); // pointers that are down
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      held.set(event.pointerId, [event.offsetX, event.offsetY]);
      if (held.size === 1) moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = held.get(event.pointerId);
      if (!before) { this.hover(event.offsetX, event.offsetY); return; }
      const now = [event.offsetX, event.offsetY];
      if (held.size === 1) {
        moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
        const [ux, uy] = this.unit();
        this.x -= (now[0] - before[0]) / ux;
        this.y += (now[1] - before[1]) / uy;
      } else if (held.size === 2) {
        moved = 1e9;
        const other = [...held].find(([id]) => id !== event.pointerId)?.[1] ?? now;
        const far = (/** @type {number[]} */ p) => Math.hypot(p[0] - other[0], p[1] - other[1]);
        this.scale(far(now) / Math.max(1, far(before)), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      }
      held.set(event.pointerId, now);
      this.soon();
    });
    const up = (/** @type {PointerEvent} */ event) => {
      held.delete(event.pointerId);
      if (event.type === "pointerup" && moved < 6) {
        this.hover(event.offsetX, event.offsetY);
        if (this.over >= 0) go({ card: `entity:${this.found.names[this.over]}` });
      }
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => { this.over = -1; this.tip.hidden = true; this.soon(); });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.scale(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (step) { this.x += step[0] * 0.2 / this.zoom; this.y += step[1] * 0.2 / this.zoom; this.soon(); }
      else if (event.key === "+" || event.key === "=") this.scale(1.3);
      else if (event.key === "-") this.scale(1 / 1.3);
      else if (event.key === "0") this.whole();
      else return;
      event.preventDefault();
    });
  }

  // Pixels per unit; the map is stretched a little to fill its frame.
  unit() {
    const { wide, high } = this;
    return [Math.min(wide, 1.7 * high), Math.min(high, 1.7 * wide)].map((side) => this.zoom * side * 0.47);
  }

  /** @param {number} i */
  at(i) {
    const [ux, uy] = this.unit();
    return [this.wide / 2 + (this.found.x[i] - this.x) * ux, this.high / 2 - (this.found.y[i] - this.y) * uy];
  }

  /** @param {number} by */
  scale(by, px = this.wide / 2, py = this.high / 2) {
    const zoom = Math.min(200, Math.max(0.6, this.zoom * by));
    const [ux, uy] = this.unit();
    const dx = (px - this.wide / 2) / ux, dy = -(py - this.high / 2) / uy;
    const keep = 1 - this.zoom / zoom; // what is under the pointer stays there
    this.x += dx * keep;
    this.y += dy * keep;
    this.zoom = zoom;
    this.soon();
  }

  whole() { this.zoom = 1; this.x = this.y = 0; this.soon(); }

  /** @param {number} px @param {number} py */
  hover(px, py) {
    let best = 14 * 14, over = -1;
    for (let i = 0; i < this.found.names.length; i++) {
      const [x, y] = this.at(i);
      const far = (x - px) ** 2 + (y - py) ** 2;
      if (far < best) { best = far; over = i; }
    }
    if (over === this.over) return;
    this.over = over;
    this.tip.hidden = over < 0;
    this.canvas.classList.toggle("over", over >= 0);
    if (over >= 0) {
      const [x, y] = this.at(over);
      show(this.tip, this.found.labels[over], el("span", { class: "facts" }, count(this.found.facts[over])));
      this.tip.style.left = `${Math.min(Math.max(x, 60), this.wide - 60)}px`;
      this.tip.style.top = `${y}px`;
    }
    this.soon();
  }

  soon() {
    if (this.waits) return;
    this.waits = requestAnimationFrame(() => { this.waits = 0; this.draw(); });
  }

  /** Take the size of the frame; false where there is none. */
  resize() {
    const box = this.canvas.getBoundingClientRect();
    const sharp = window.devicePixelRatio || 1;
    this.wide = box.width;
    this.high = box.height;
    if (!this.wide || !this.high) return false;
    if (this.canvas.width !== Math.round(this.wide * sharp) || this.canvas.height !== Math.round(this.high * sharp)) {
      this.canvas.width = Math.round(this.wide * sharp);
      this.canvas.height = Math.round(this.high * sharp);
    }
    return true;
  }

  draw() {
    if (!this.resize()) return;
    const sharp = window.devicePixelRatio || 1;
    const style = getComputedStyle(this.canvas);
    const colours = (/** @type {string} */ letter, /** @type {number} */ n) => Array.from({ length: n }, (_, i) => style.getPropertyValue(`--${letter}${i}`).trim());
    const palette = this.found.position ? colours("p", 4) : colours("c", 10);
    const kinds = this.found.position ?? this.found.cluster;
    const pen = this.canvas.getContext("2d");
    if (!pen) return;
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    pen.clearRect(0, 0, this.wide, this.high);
    const crowd = Math.max(0.35, Math.min(1, Math.sqrt(4000 / this.found.names.length)));
    const grow = Math.min(2.2, this.zoom ** 0.35);
    const order = this.found.position // what the colours are about lies on top
      ? [...this.order].sort((a, b) => Number(kinds[a] > 0) - Number(kinds[b] > 0)) : this.order;
    for (const i of order) {
      const [x, y] = this.at(i);
      if (x < -9 || y < -9 || x > this.wide + 9 || y > this.high + 9) continue;
      pen.globalAlpha = this.found.position && !kinds[i] ? 0.35 : 0.78;
      pen.fillStyle = palette[kinds[i] % palette.length];
      pen.beginPath();
      pen.arc(x, y, crowd * grow * (1.4 + 1.1 * Math.log10(1 + this.found.facts[i])), 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
    this.names(pen, style, order);
  }

  // As many names as have room.
  /** @param {CanvasRenderingContext2D} pen @param {CSSStyleDeclaration} style @param {number[]} order */
  names(pen, style, order) {
    const ink = style.getPropertyValue("--ink").trim(), paper = style.getPropertyValue("--sea").trim();
    pen.font = `500 12px ${style.fontFamily}`;
    pen.textAlign = "center";
    pen.lineJoin = "round";
    /** @type {number[][]} */
    const taken = [];
    const write = (/** @type {number} */ i, /** @type {boolean} */ always) => {
      const [x, y] = this.at(i);
      if (x < 0 || y < 0 || x > this.wide || y > this.high) return;
      const label = this.found.labels[i], text = label.length > 28 ? `${label.slice(0, 27)}…` : label;
      const half = pen.measureText(text).width / 2 + 4;
      const room = [x - half, y - 22, x + half, y - 4];
      if (!always && (room[0] < 0 || room[2] > this.wide || taken.some((t) => room[0] < t[2] && room[2] > t[0] && room[1] < t[3] && room[3] > t[1]))) return;
      taken.push(room);
      pen.strokeStyle = paper;
      pen.lineWidth = 3.5;
      pen.strokeText(text, x, y - 9);
      pen.fillStyle = ink;
      pen.fillText(text, x, y - 9);
    };
    if (this.chosen >= 0) {
      const [x, y] = this.at(this.chosen);
      pen.strokeStyle = ink;
      pen.lineWidth = 1.6;
      pen.beginPath();
      pen.arc(x, y, 9, 0, 7);
      pen.stroke();
      write(this.chosen, true);
    }
    const most = Math.min(40, Math.round(this.wide / 32));
    for (let j = order.length - 1, tries = 0; j >= 0 && tries < 400 && taken.length < most; j--) {
      const [x, y] = this.at(order[j]);
      if (x < 0 || y < 0 || x > this.wide || y > this.high) continue;
      tries++;
      write(order[j], false);
    }
  }
}
