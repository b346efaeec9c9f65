/** Are two configurations the same? Their digests tell: a large one is neither kept as a text nor made one in one go. */
import type { Pieces } from "../../../base/pieces.ts";
import { isSmall, type PythonValue } from "../../pydantic/value.ts";
import type { Value } from "./pbtxt.ts";

/** Characters that are hashed at a time. */
const CHARACTERS = 4096;
/** So many values become a text at a time. */
const BATCH = 64;

/** A digest of the configuration as it was read: what is left out differs from what is said as it is by default. */
export function* signatureOf(config: Value): Pieces<string> {
  const signing = new Signing();
  yield* signing.value(config);
  return signing.digest();
}

/** Hashes a text that differs where values do. */
class Signing {
  readonly #hash = new Bun.CryptoHasher("sha256");
  #text = "";
  /** Values that are small, with their names, and have not become text. */
  #batch: (string | Value)[] = [];

  digest(): string {
    this.#flush();
    return this.#hash.update(this.#text).digest("hex");
  }

  *value(value: Value): Pieces<void> {
    if (this.#takes(value)) return;
    const names = Array.isArray(value) ? null : Object.keys(value);
    const items = names ?? (value as readonly Value[]);
    this.#mark(names === null ? "[" : "{");
    for (let at = 0; at < items.length; at++) {
      const one = names === null ? (items[at] as Value) : (value as { readonly [name: string]: Value })[names[at]!];
      if (one === undefined) continue;
      if (names !== null) this.#batch.push(names[at]!);
      if (!this.#takes(one)) yield* this.value(one);
      if (this.#batch.length >= BATCH) this.#flush();
      if (this.#text.length < CHARACTERS) continue;
      this.#hash.update(this.#text);
      this.#text = "";
      yield;
    }
    this.#mark(names === null ? "]" : "}");
  }

  /** False: it is too large to become a text in one go. */
  #takes(value: Value): boolean {
    if (typeof value === "object" && !isSmall(value as PythonValue)) return false;
    this.#batch.push(value);
    return true;
  }

  #mark(mark: string): void {
    this.#flush();
    this.#text += mark;
  }

  #flush(): void {
    if (this.#batch.length > 0) this.#text += JSON.stringify(this.#batch);
    this.#batch = [];
  }
}
