// Where the nodes of a drawing stand, and where their labels fit.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fit, overlap, placeLabels, settle } from "../../src/bilink/serving/page/layout.js";

const FRAME = { wide: 400, high: 380 };

function star(n) {
  const nodes = Array.from({ length: n }, (_, i) => ({ x: 200 + (i ? 90 * Math.cos(2.4 * i) : 0), y: 190 + (i ? 90 * Math.sin(2.4 * i) : 0), r: 5 }));
  const edges = nodes.slice(1).map((_, i) => [0, i + 1]);
  settle(nodes, edges, FRAME);
  fit(nodes, { ...FRAME, side: 80, edge: 22 });
  return nodes;
}

test("nodes stand apart within the frame, the same each time", () => {
  for (const n of [2, 3, 24, 60]) {
    const nodes = star(n);
    assert.deepEqual(nodes, star(n));
    for (const { x, y } of nodes) assert.ok(x >= 79 && x <= 321 && y >= 21 && y <= 359, `${n}: ${x} ${y}`);
    nodes.forEach((a, i) => nodes.slice(0, i).forEach((b) => assert.ok(Math.hypot(a.x - b.x, a.y - b.y) > 6)));
  }
});

test("labels clip nowhere and lie on no other label or node", () => {
  const nodes = star(40);
  const boxes = placeLabels(nodes, nodes.map((_, i) => 30 + 7 * (i % 13)), 15, FRAME);
  const placed = boxes.filter(Boolean);
  assert.ok(placed.length > 15, `${placed.length} of 40`);
  placed.forEach((box, i) => {
    assert.ok(box.left >= 0 && box.top >= 0 && box.right <= FRAME.wide && box.bottom <= FRAME.high);
    placed.slice(0, i).forEach((other) => assert.ok(!overlap(box, other)));
  });
  boxes.forEach((box, i) => nodes.forEach(({ x, y, r }, j) => {
    if (box && i !== j) assert.ok(!overlap(box, { left: x - r, top: y - r, right: x + r, bottom: y + r }));
  }));
});
