/** Character codes and escapes that the JSON readers test for. */
export enum Code {
  Quote = 34,
  Plus = 43,
  Comma = 44,
  Minus = 45,
  Point = 46,
  Zero = 48,
  Nine = 57,
  Colon = 58,
  LargeE = 69,
  OpenBracket = 91,
  Backslash = 92,
  CloseBracket = 93,
  SmallE = 101,
  F = 102,
  N = 110,
  T = 116,
  U = 117,
  OpenBrace = 123,
  CloseBrace = 125,
}

/** Byte that an escape letter stands for, or 0 if the letter is not an escape. */
export const SHORT_ESCAPES = new Uint8Array(256);
for (const [letter, byte] of [...'""\\\\//b\bf\fn\nr\rt\t'.matchAll(/../gs)].map(([pair]) => [...pair!]))
  SHORT_ESCAPES[letter!.charCodeAt(0)] = byte!.charCodeAt(0);
