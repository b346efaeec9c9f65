/**
 * Finds the place of values in a JSON text, because bodies are sent as they were recorded, with the same order of keys and
 * spelling of numbers.
 */

export interface Slice {
  readonly from: number;
  readonly to: number;
  readonly members: ReadonlyMap<string, Slice>;
  readonly items: readonly Slice[];
}

const NONE: ReadonlyMap<string, Slice> = new Map();

/** Returns the slice of the value that begins at `at`, after blanks. The text must be JSON. */
export function slice(text: string, at = 0): Slice {
  const from = blank(text, at);
  const opening = text[from];
  if (opening === "{" || opening === "[") return container(text, from, opening === "{");
  const to =
    opening === '"' ? stringEnd(text, from) : from + /^[^\s,\]}]*/.exec(text.slice(from, from + 400))![0].length;
  return { from, to, members: NONE, items: [] };
}

function container(text: string, from: number, named: boolean): Slice {
  const members = new Map<string, Slice>();
  const items: Slice[] = [];
  let at = blank(text, from + 1);
  while (text[at] !== "}" && text[at] !== "]") {
    let name = "";
    if (named) {
      const end = stringEnd(text, at);
      name = JSON.parse(text.slice(at, end));
      at = blank(text, end) + 1;
    }
    const value = slice(text, at);
    if (named) members.set(name, value);
    else items.push(value);
    at = blank(text, value.to);
    if (text[at] === ",") at = blank(text, at + 1);
  }
  return { from, to: at + 1, members, items };
}

function blank(text: string, at: number): number {
  let next = at;
  while (/\s/.test(text[next] ?? "x")) next++;
  return next;
}

function stringEnd(text: string, from: number): number {
  let at = from + 1;
  while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}

/** Returns the JSON text without blanks between its parts. */
export function compact(text: string): string {
  return text.replace(/"(?:[^"\\]|\\.)*"|\s+/g, (part) => (part.startsWith('"') ? part : ""));
}
