// @ts-check
// A box that completes names while they are typed: the ARIA combobox with a list.

import { el, show } from "./dom.js";
import { count } from "./format.js";
import { get, labelOf, learn } from "./store.js";

let made = 0;

export class Combobox {
  /** @param {Element} host
   *  @param {{kind: string, label: string, placeholder?: string, changed: (name: string|null, left?: boolean, key?: boolean) => void}} options */
  constructor(host, { kind, label, placeholder = "?", changed }) {
    this.kind = kind;
    this.changed = changed;
    /** @type {string|null} */
    this.name = null; // what is chosen
    /** @type {{name: string, label: string, facts: number}[]} */
    this.rows = [];
    /** @type {string|null} */
    this.looked = null; // the text that the rows are for
    /** @type {AbortController|undefined} */
    this.request = undefined;
    /** @type {number|undefined} */
    this.timer = undefined;
    this.active = -1;
    const id = `box-${++made}`;
    this.input = el("input", {
      id, type: "text", role: "combobox", placeholder, dir: "auto", maxlength: 500, spellcheck: "false",
      autocapitalize: "none", autocorrect: "off", autocomplete: "off", enterkeyhint: "search",
      "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": `${id}-list`,
    });
    this.list = el("ul", { id: `${id}-list`, role: "listbox", "aria-label": label, hidden: true });
    this.clear = el("button", {
      type: "button", class: "clear", "aria-label": `Empty ${label.toLowerCase()}`, hidden: true,
    }, "×");
    show(host, el("label", { for: id }, label), this.input, this.clear, this.list);
    this.host = host;
    this.input.addEventListener("input", () => this.typed());
    this.input.addEventListener("focus", () => { this.input.select(); if (!this.name) this.look(); });
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("blur", () => this.left());
    this.clear.addEventListener("click", () => { this.choose(null); this.input.focus(); });
    this.list.addEventListener("pointerdown", (event) => event.preventDefault()); // keep the focus
  }

  // Show a name without telling anyone.
  /** @param {string|null} name */
  async set(name) {
    this.name = name;
    this.input.value = name ?? "";
    this.clear.hidden = !name;
    if (!name) return;
    try {
      const label = await labelOf(this.kind, name);
      if (this.name === name && document.activeElement !== this.input) this.input.value = label;
    } catch { /* the name will do */ }
  }

  /** @param {{name: string, label: string}|null} row */
  choose(row, key = false) {
    if (row) learn(this.kind, row);
    this.name = row?.name ?? null;
    this.input.value = row?.label ?? "";
    this.clear.hidden = !row;
    this.close();
    this.changed(this.name, false, key);
  }

  typed() {
    this.name = null;
    this.clear.hidden = !this.input.value;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.look(), 60);
  }

  async look() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.request = new AbortController();
    const text = this.input.value.trim();
    try {
      const found = await get("search", { text, kind: this.kind, k: 8 }, this.request.signal);
      if (document.activeElement !== this.input) return;
      this.rows = found.matches;
      this.looked = text;
      this.draw(text);
    } catch (error) {
      if (/** @type {Error} */ (error).name !== "AbortError") this.close();
    }
  }

  /** @param {string} text */
  draw(text) {
    this.active = text && this.rows.length ? 0 : -1;
    const rows = this.rows.map((row, i) =>
      el("li", { id: `${this.input.id}-${i}`, role: "option", onclick: () => this.choose(row) },
        el("span", { class: "label", dir: "auto" }, row.label),
        row.name !== row.label && el("span", { class: "name", dir: "auto" }, row.name),
        el("span", { class: "facts" }, count(row.facts))));
    show(this.list, rows.length ? rows
      : el("li", { class: "none", role: "option", "aria-disabled": "true" }, "nothing of this name"));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.mark();
  }

  mark() {
    [...this.list.children].forEach((item, i) =>
      item.setAttribute("aria-selected", String(i === this.active)));
    const item = this.active >= 0 ? this.list.children[this.active] : null;
    if (item) {
      this.input.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    } else this.input.removeAttribute("aria-activedescendant");
  }

  close() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.list.hidden = true;
    this.rows = [];
    this.looked = null;
    this.active = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const open = !this.list.hidden;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) {
      event.preventDefault();
      this.move(step, open);
    } else if (event.key === "Enter" && !this.name && this.input.value.trim()) {
      event.preventDefault();
      this.enter();
    } else if (event.key === "Enter" && open && this.active >= 0) {
      event.preventDefault();
      this.choose(this.rows[this.active], true);
    } else if (event.key === "Escape") {
      if (open) { event.preventDefault(); this.close(); } // else it leads to the answers
    }
  }

  /** @param {number} step @param {boolean} open */
  move(step, open) {
    const n = this.rows.length;
    if (!open) this.look();
    else if (n) {
      this.active = this.active < 0 ? (step > 0 ? 0 : n - 1) : (this.active + step + n) % n;
      this.mark();
    }
  }

  // Enter takes the marked match of what is typed, also of a hasty typist.
  async enter() {
    if (this.looked !== this.input.value.trim()) await this.look();
    if (this.rows.length) this.choose(this.rows[Math.max(0, this.active)], true);
    else this.input.form?.requestSubmit();
  }

  // What was typed and not chosen is taken for a name: the server knows what is close to it.
  take() {
    const text = this.input.value.trim();
    if (!this.name && text) {
      const folded = text.toLowerCase();
      const row = this.rows.find((r) => r.label.toLowerCase() === folded || r.name === text);
      this.name = row?.name ?? text;
      if (row) this.input.value = row.label;
      this.clear.hidden = false;
    }
    return this.name;
  }

  left() {
    const before = this.name;
    const name = this.take();
    this.close();
    if (name !== before) this.changed(name, true);
  }
}
