// Why: which members and which facts speak for an answer.

import { el } from "./dom.js";

export function explanation(found) {
  return el("pre", null, JSON.stringify(found, null, 1));
}
