/** Are two configurations the same? Their digests tell: a large one is neither kept as a text nor made one in one go. */
import { createHash } from "node:crypto";
import type { Pieces } from "../../python/pieces.ts";
import type { Value } from "./pbtxt.ts";

/** Characters that are hashed at a time. */
const CHARACTERS = 4096;

/** A digest of the configuration as it was read: what is left out differs from what is said as it is by default. */
export function* signatureOf(config: Value): Pieces<string> {
  const hash = createHash("sha256");
  let text = "";
  for (const part of partsOf(config)) {
    text += part;
    if (text.length < CHARACTERS) continue;
    hash.update(text);
    text = "";
    yield;
  }
  return hash.update(text).digest("hex");
}

/** Parts of a text that differs where values do. */
function* partsOf(value: Value): Generator<string, void> {
  if (typeof value !== "object") yield `${JSON.stringify(value)},`;
  else if (Array.isArray(value)) {
    yield "[";
    for (const one of value) yield* partsOf(one);
    yield "]";
  } else {
    yield "{";
    for (const name of Object.keys(value)) {
      const one = (value as { readonly [name: string]: Value | undefined })[name];
      if (one === undefined) continue;
      yield `${JSON.stringify(name)}:`;
      yield* partsOf(one);
    }
    yield "}";
  }
}
