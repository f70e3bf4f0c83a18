// @ts-check
// What happens to rows before they are shown.

/**
 * @typedef {{head: string, relation: string, tail: string, head_label: string, relation_label: string,
 *   tail_label: string, label?: string, score?: number|null, probability: number|null, rank?: number,
 *   known?: boolean, facts?: number, decision?: string|null}} Row
 */

/** @param {{head: string, relation: string, tail: string}} row */
export const keyOf = ({ head, relation, tail }) => JSON.stringify([head, relation, tail]);

/** Text without case and accents, to compare with.  @param {string} text */
export const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** What a row is called in a list.  @param {any} row */
const called = (row) => row.label ?? [row.head_label, row.relation_label, row.tail_label].join(" ");

/** @param {any} row */
const words = (row) => fold([row.label, row.name, row.head_label, row.relation_label, row.tail_label].filter(Boolean).join(" "));

/** The rows that a filter leaves, in the order that was chosen.
 * @template T
 * @param {T[]} rows
 * @param {{find?: string|null, least?: number, only?: string|null, sort?: string|null}} wanted
 * @returns {T[]} */
export function arrange(rows, { find, least, only, sort }) {
  const text = find && fold(find);
  const left = rows.filter((/** @type {any} */ row) =>
    (!text || words(row).includes(text))
    && (!least || (row.probability ?? 0) * 100 >= least)
    && (!only || row.relation === only));
  if (sort === "name") return [...left].sort((a, b) => called(a).localeCompare(called(b)));
  if (sort === "facts") return [...left].sort((/** @type {any} */ a, /** @type {any} */ b) => (b.facts ?? 0) - (a.facts ?? 0));
  return left;
}

/** The relations of rows, by label.  @param {Row[]} rows */
export const relationsOf = (rows) =>
  [...new Map(rows.map((row) => [row.relation, row.relation_label]))].sort((a, b) => a[1].localeCompare(b[1]));

/** How long the bars are: probabilities as they are; where there are none, scores within what is shown.
 * @param {Row[]} rows */
export function lengths(rows) {
  if (rows.some((row) => row.probability !== null)) return rows.map((row) => row.probability ?? 0);
  const scores = /** @type {number[]} */ (rows.map((row) => row.score ?? null).filter((s) => s !== null));
  const low = Math.min(...scores), high = Math.max(...scores);
  return rows.map(({ score }) => {
    if (score === null || score === undefined) return 0;
    return high > low ? 0.04 + 0.96 * (score - low) / (high - low) : 1;
  });
}
