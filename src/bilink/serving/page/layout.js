// @ts-check
// Where the nodes of a drawing stand, and where their labels fit.

/** @typedef {{x: number, y: number}} Point */
/** @typedef {{left: number, top: number, right: number, bottom: number}} Box */

/** Push nodes apart, pull neighbours together; the first node stays in the middle.
 * @param {Point[]} nodes Moved in place.
 * @param {[number, number][]} edges
 * @param {{wide: number, high: number, steps?: number}} options */
export function settle(nodes, edges, { wide, high, steps = 160 }) {
  const far = Math.sqrt((wide * high) / Math.max(nodes.length, 4)) * 0.72;
  for (let step = 0; step < steps; step++) {
    const heat = far * 0.25 * (1 - step / steps) + 0.5;
    const force = nodes.map(() => ({ x: 0, y: 0 }));
    for (let i = 0; i < nodes.length; i++) {
      for (let j = 0; j < i; j++) {
        const dx = nodes[i].x - nodes[j].x || 0.01 * (i - j), dy = nodes[i].y - nodes[j].y || 0.013;
        const d2 = Math.max(dx * dx + dy * dy, 1), push = (far * far) / d2;
        force[i].x += dx * push; force[i].y += dy * push;
        force[j].x -= dx * push; force[j].y -= dy * push;
      }
    }
    for (const [i, j] of edges) {
      const dx = nodes[i].x - nodes[j].x, dy = nodes[i].y - nodes[j].y;
      const pull = Math.hypot(dx, dy) / far;
      force[i].x -= dx * pull; force[i].y -= dy * pull;
      force[j].x += dx * pull; force[j].y += dy * pull;
    }
    nodes.forEach((node, i) => {
      if (!i) return;
      const f = force[i];
      f.x -= (node.x - wide / 2) * 0.3; f.y -= (node.y - high / 2) * 0.3 * (wide / high);
      const length = Math.hypot(f.x, f.y) || 1, move = Math.min(length, heat);
      node.x += (f.x / length) * move;
      node.y += (f.y / length) * move;
    });
  }
}

/** Stretch the drawing to its frame, with room for labels at the sides.
 * @param {Point[]} nodes @param {{wide: number, high: number, side: number, edge: number}} frame */
export function fit(nodes, { wide, high, side, edge }) {
  const low = { x: Math.min(...nodes.map((n) => n.x)), y: Math.min(...nodes.map((n) => n.y)) };
  const top = { x: Math.max(...nodes.map((n) => n.x)), y: Math.max(...nodes.map((n) => n.y)) };
  const sx = (wide - 2 * side) / Math.max(top.x - low.x, 1), sy = (high - 2 * edge) / Math.max(top.y - low.y, 1);
  for (const node of nodes) {
    node.x = side + (node.x - low.x) * sx;
    node.y = edge + (node.y - low.y) * sy;
  }
}

/** @param {Box} a @param {Box} b */
export const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/** A place for each label beside its node: right, left, below or above, within the frame, on no other
 * label and on no node.  Null where there is none; the first nodes choose first.
 * @param {(Point & {r: number})[]} nodes @param {number[]} widths @param {number} height
 * @param {{wide: number, high: number}} frame @param {Box[]} [taken] What is there already. */
export function placeLabels(nodes, widths, height, { wide, high }, taken = []) {
  const dots = nodes.map(({ x, y, r }) => ({ left: x - r - 1, top: y - r - 1, right: x + r + 1, bottom: y + r + 1 }));
  const boxes = [...taken];
  return nodes.map(({ x, y, r }, i) => {
    const w = widths[i], h = height, gap = r + 4;
    const right = { left: x + gap, top: y - h / 2, right: x + gap + w, bottom: y + h / 2 };
    const left = { left: x - gap - w, top: y - h / 2, right: x - gap, bottom: y + h / 2 };
    const below = { left: x - w / 2, top: y + gap - 1, right: x + w / 2, bottom: y + gap - 1 + h };
    const above = { left: x - w / 2, top: y - gap + 1 - h, right: x + w / 2, bottom: y - gap + 1 };
    const sides = x < wide / 2 ? [left, right] : [right, left];
    const found = [...sides, below, above].find((box) =>
      box.left >= 2 && box.top >= 2 && box.right <= wide - 2 && box.bottom <= high - 2
      && !boxes.some((other) => overlap(box, other))
      && !dots.some((dot, j) => j !== i && overlap(box, dot))) ?? null;
    if (found) boxes.push(found);
    return found;
  });
}
