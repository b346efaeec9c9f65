/** Draws values of JSON for readers of files and requests that must accept or refuse anything. */
import fc from "fast-check";

/** Draws values of up to four levels. Members of objects have names of `key`. */
export function anyValue(key: fc.Arbitrary<string>): fc.Arbitrary<unknown> {
  return fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.jsonValue({ maxDepth: 1 }),
      fc.array(tie("value")),
      fc.dictionary(key, tie("value")),
    ),
  })).value;
}
