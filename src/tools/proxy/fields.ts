/** Headers as they were sent, with their order, letter case and repetitions. Removes those of one connection (RFC 9110, 7.6.1). */

/** Header lines in the order and letter case of the sender. Values are bytes as Latin-1. */
export type HeaderLines = readonly (readonly [name: string, value: string])[];

/**
 * Headers that concern one connection only, whether `Connection` lists them or not. Content-Length and Transfer-Encoding are
 * not included, because the code that writes a head chooses its framing.
 */
const OF_ONE_CONNECTION = new Set([
  ...["connection", "keep-alive", "te", "upgrade"],
  ...["proxy-connection", "proxy-authenticate", "proxy-authentication-info", "proxy-authorization"],
]);
/** Headers that are kept even if `Connection` lists them, because messages cannot be delivered without them. */
const KEPT = new Set(["host", "content-length", "transfer-encoding"]);

/** Converts Node's flat list of names and values into pairs. */
export const linePairs = (flat: readonly string[]): HeaderLines =>
  Array.from({ length: flat.length >> 1 }, (_, at) => [flat[2 * at]!, flat[2 * at + 1]!]);

export const lower = (name: string): string => name.toLowerCase();

/** Returns all values of a header in their order. `name`: lower-case. */
export const allValues = (fields: HeaderLines, name: string): string[] =>
  fields.filter(([one]) => lower(one) === name).map(([, value]) => value);

/** Returns the first value of a header, or null if it is absent. */
export const firstValue = (fields: HeaderLines, name: string): string | null => allValues(fields, name)[0] ?? null;

/** Returns the members of lists such as `a, b`, in lower case, of all lines of a header. */
export const listMembers = (fields: HeaderLines, name: string): string[] =>
  allValues(fields, name).flatMap((value) =>
    value
      .split(",")
      .map((member) => lower(member.trim()))
      .filter((member) => member !== ""),
  );

/** Returns the headers that a proxy forwards: all but those of one connection and those that `Connection` lists. */
export function endToEnd(fields: HeaderLines): HeaderLines {
  const listed = new Set(listMembers(fields, "connection").filter((name) => !KEPT.has(name)));
  return fields.filter(([name]) => !OF_ONE_CONNECTION.has(lower(name)) && !listed.has(lower(name)));
}

/** Replaces the first header of that name by `line` and removes the others. Appends `line` if there is none. */
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

/** Formats headers as lines, each with CRLF. */
export const linesOf = (fields: HeaderLines): string => fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
