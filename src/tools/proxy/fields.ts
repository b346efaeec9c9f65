/** Header fields as they stand on the wire: their order, letter case and repetitions are kept. RFC 9110, 7.6.1. */

/** Lines in the order sent; names in the letter case sent. Values are bytes as Latin-1. */
export type HeaderLines = readonly (readonly [name: string, value: string])[];

/**
 * HeaderLines that concern one connection only, whether `Connection` lists them or not. Content-Length and Transfer-Encoding
 * are not among them: whoever writes a head decides on its framing.
 */
const OF_ONE_CONNECTION = new Set([
  ...["connection", "keep-alive", "te", "upgrade"],
  ...["proxy-connection", "proxy-authenticate", "proxy-authentication-info", "proxy-authorization"],
]);
/** Needed to find the end of a message and its receiver; stay even if `Connection` lists them. */
const KEPT = new Set(["host", "content-length", "transfer-encoding"]);

/** Pairs up Node's flat list of names and values. */
export const linePairs = (flat: readonly string[]): HeaderLines =>
  Array.from({ length: flat.length >> 1 }, (_, at) => [flat[2 * at]!, flat[2 * at + 1]!]);

export const lower = (name: string): string => name.toLowerCase();

/** All values of a field, in their order. `name` in lower case. */
export const allValues = (fields: HeaderLines, name: string): string[] =>
  fields.filter(([one]) => lower(one) === name).map(([, value]) => value);

/** The first value; null: the field is absent. */
export const firstValue = (fields: HeaderLines, name: string): string | null => allValues(fields, name)[0] ?? null;

/** Members of a list such as `a, b`, in lower case, of all lines of the field. */
export const listMembers = (fields: HeaderLines, name: string): string[] =>
  allValues(fields, name).flatMap((value) =>
    value
      .split(",")
      .map((member) => lower(member.trim()))
      .filter((member) => member !== ""),
  );

/** The fields that a proxy forwards: without those of one connection and without those that `Connection` lists. */
export function endToEnd(fields: HeaderLines): HeaderLines {
  const listed = new Set(listMembers(fields, "connection").filter((name) => !KEPT.has(name)));
  return fields.filter(([name]) => !OF_ONE_CONNECTION.has(lower(name)) && !listed.has(lower(name)));
}

/** Puts `line` in place of the first field of that name and removes the others; a missing field is added at the end. */
export function withOnly(fields: HeaderLines, line: readonly [name: string, value: string]): HeaderLines {
  const name = lower(line[0]);
  const at = fields.findIndex(([one]) => lower(one) === name);
  if (at === -1) return [...fields, line];
  return fields.flatMap((field, index) => {
    if (index === at) return [[field[0], line[1]] as const];
    return lower(field[0]) === name ? [] : [field];
  });
}

export const without = (fields: HeaderLines, ...names: readonly string[]): HeaderLines =>
  fields.filter(([name]) => !names.includes(lower(name)));

/** Header lines, each with its line end. */
export const linesOf = (fields: HeaderLines): string => fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
