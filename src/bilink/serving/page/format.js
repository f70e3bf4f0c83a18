// @ts-check
// Numbers, tables and commands as text.

const whole = new Intl.NumberFormat("en");

/** @param {number} n */
export const count = (n) => whole.format(n);

/** @param {number} n @param {string} one @param {string} [many] */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** @param {number} p A share of one. */
export function percent(p) {
  if (p === 0 || p === 1) return `${100 * p} %`;
  if (p >= 0.9995) return "> 99.9 %";
  if (p < 0.0005) return "< 0.1 %";
  const value = 100 * p;
  return `${value < 10 || value > 99 ? value.toFixed(1) : Math.round(value)} %`;
}

/** @param {string} text @param {number} [n] */
export const short = (text, n = 40) => (text.length <= n ? text : `${text.slice(0, n - 1)}…`);

/** @param {string} text */
export const sentence = (text) => text && text[0].toUpperCase() + text.slice(1);

/** The columns of a list of triples that a spreadsheet opens.
 * @param {Record<string, unknown>[]} rows */
export function csv(rows) {
  const all = ["head", "relation", "tail", "name", "head_label", "relation_label", "tail_label", "label",
    "facts", "probability", "score", "known", "decision", "reason", "time"];
  const columns = all.filter((name) => rows.some((row) => row[name] !== undefined && row[name] !== null));
  const lines = [columns, ...rows.map((row) => columns.map((name) => row[name]))];
  return lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** @param {unknown} value */
function cell(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n\t]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** One word of a shell command.
 * @param {string} text */
export const shellWord = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** A string of Python; what an eye could not see is escaped.
 * @param {string} text */
export const pythonString = (text) =>
  JSON.stringify(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu, (letter) => {
    const point = letter.codePointAt(0) ?? 0;
    return point > 0xffff ? `\\U${point.toString(16).padStart(8, "0")}` : `\\u${point.toString(16).padStart(4, "0")}`;
  });

/** The parameters of a request as they stand in an address: letters, digits and * - . _ % + & =.
 * @param {Record<string, unknown>} params */
export function queryOf(params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) query.set(name, String(value));
  }
  return query.toString();
}

/** The command that asks the same.
 * @param {string} address @param {boolean} token Whether the server wants one. */
export const asCurl = (address, token = false) =>
  `curl ${token ? '-H "Authorization: Bearer $BILINK_TOKEN" ' : ""}${shellWord(address)}`;

/** The script that asks the same of the library.
 * @param {{head?: string|null, relation?: string|null, tail?: string|null, k: number, new?: boolean, any_entity?: boolean}} question
 * @param {string} folder */
export function asPython({ head, relation, tail, k, new: fresh, any_entity: any }, folder) {
  const given = Object.entries({ head, relation, tail })
    .filter(([, name]) => name).map(([role, name]) => `${role}=${pythonString(String(name))}`);
  if (fresh && given.length) given.push("new=True");
  if (any) given.push("any_entity=True");
  const call = given.length ? `query(${[...given, `k=${k}`].join(", ")})` : `new_facts(${k})`;
  return `import bilink\n\nrun = bilink.load(${pythonString(folder)})\nanswers = run.${call}\n`
    + "for answer in answers:\n    print(answer.head, answer.relation, answer.tail, answer.probability)\n";
}

/** A script that asks the server, for what only it answers.
 * @param {string} address */
export const asPythonRequest = (address) =>
  "import json\nimport urllib.request\n\n"
  + `with urllib.request.urlopen(${pythonString(address)}) as answer:\n    found = json.load(answer)\n`;

/** A rule as a sentence, and how often it holds; null if it reads otherwise.
 * @param {string} text As “X speaks Y ← X borders Y, 0.26, 50 of 191”. */
export function readRule(text) {
  const found = /^([^←]+) ← ([^←]+?)(?:, \d\.\d+, ([\d,]+) of ([\d,]+))?$/s.exec(text);
  return found && { then: found[1], when: found[2], held: found[3], of: found[4] };
}
