/** The vocabulary of the tests' model: bytes of tokens, and tokens of a text. */
import known from "../../conformance/model/tokens.json";

const bytes = known.bytes_hex.map((hex) => Buffer.from(hex, "hex"));
const special = new Set(known.special);
/** Tokens by their bytes as Latin-1, without special tokens. */
const byBytes = new Map(
  bytes.flatMap((each, id) => (special.has(id) || each.length === 0 ? [] : [[each.toString("latin1"), id]])),
);
const LONGEST = Math.max(...bytes.map(({ length }) => length));

export const bytesOf = (id: number): Buffer => bytes[id] ?? Buffer.alloc(0);
export const isSpecial = (id: number): boolean => special.has(id);

/** Returns tokens whose bytes are the text: always the longest one that fits. A model may have split it in another way. */
export function tokens(text: string): number[] {
  const rest = Buffer.from(text).toString("latin1");
  const ids: number[] = [];
  for (let at = 0; at < rest.length; ) {
    let length = LONGEST;
    while (!byBytes.has(rest.slice(at, at + length))) length--;
    ids.push(byBytes.get(rest.slice(at, at + length))!);
    at += length;
  }
  return ids;
}
