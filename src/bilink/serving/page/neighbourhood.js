// An entity among its neighbours, on a circle, in sectors by relation.

import { short, svg, el } from "./dom.js";
import { go } from "./links.js";

const SIZE = 420, R = 118;

export function neighbourhood({ nodes, edges, relations }) {
  if (nodes.length < 2) return el("p", { class: "under" }, "No facts to draw.");
  const middle = SIZE / 2;
  // Neighbours of one relation stand side by side.
  const relationOf = new Map();
  for (const { head, relation, tail } of edges) {
    const other = head === 0 ? tail : tail === 0 ? head : null;
    if (other && !relationOf.has(other)) relationOf.set(other, relation);
  }
  const order = nodes.map((_, i) => i).slice(1)
    .sort((a, b) => (relationOf.get(a) ?? 1e9) - (relationOf.get(b) ?? 1e9) || a - b);
  const used = [...new Set([...relationOf.values()].concat(edges.map((e) => e.relation)))];
  const colour = new Map(used.map((r, i) => [r, `c${i % 10}`]));
  const place = [[middle, middle]];
  const turn = new Map();
  order.forEach((node, i) => {
    const angle = 2 * Math.PI * (i + 0.5) / order.length - Math.PI / 2;
    turn.set(node, angle);
    place[node] = [middle + R * Math.cos(angle), middle + R * Math.sin(angle)];
  });
  const drawn = new Set();
  const lines = edges.filter(({ head, tail }) => head !== tail).map(({ head, relation, tail }) => {
    const key = [Math.min(head, tail), Math.max(head, tail), relation].join();
    if (drawn.has(key)) return null; // a symmetric pair is one line
    drawn.add(key);
    const [x1, y1] = place[head], [x2, y2] = place[tail];
    const centre = head === 0 || tail === 0;
    const bend = centre ? 0 : 0.5; // chords lean to the middle
    const cx = (x1 + x2) / 2 + bend * (middle - (x1 + x2) / 2);
    const cy = (y1 + y2) / 2 + bend * (middle - (y1 + y2) / 2);
    return svg("path", { class: `edge ${colour.get(relation)}${centre ? "" : " chord"}`, d: `M${x1} ${y1}Q${cx} ${cy} ${x2} ${y2}` },
      svg("title", null, `${nodes[head].label} — ${relations[relation].label} → ${nodes[tail].label}`));
  });
  const dots = nodes.map((node, i) => {
    const [x, y] = place[i];
    const open = () => go({ card: `entity:${node.name}` });
    const shape = svg("circle", { cx: x, cy: y, r: i ? 4.5 : 8, class: i ? colour.get(relationOf.get(i)) ?? "" : "centre" });
    if (!i) return svg("g", { class: "node" }, shape);
    const angle = turn.get(i);
    const left = Math.cos(angle) < 0;
    const degrees = angle * 180 / Math.PI + (left ? 180 : 0);
    return svg("g", {
      class: "node", tabindex: 0, role: "link", "aria-label": node.label, onclick: open,
      onkeydown: (event) => { if (event.key === "Enter") open(); },
    },
      svg("title", null, node.label), shape,
      svg("text", {
        x: middle + (R + 10) * Math.cos(angle), y: middle + (R + 10) * Math.sin(angle),
        "text-anchor": left ? "end" : "start", "dominant-baseline": "central",
        transform: `rotate(${degrees.toFixed(2)} ${(middle + (R + 10) * Math.cos(angle)).toFixed(1)} ${(middle + (R + 10) * Math.sin(angle)).toFixed(1)})`,
      }, short(node.label, 15)));
  });
  const key = el("ul", { class: "key" }, used.map((r) =>
    el("li", null, el("i", { class: colour.get(r) }), relations[r].label)));
  return el("figure", { class: "neighbourhood" },
    svg("svg", { viewBox: `-24 0 ${SIZE + 48} ${SIZE}`, role: "group", "aria-label": `${nodes[0].label} and ${nodes.length - 1} neighbours` }, lines, dots),
    key);
}
