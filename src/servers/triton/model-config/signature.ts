/** Compares configurations by digest, so that a large configuration is neither stored as text nor serialised in one go. */
import type { Pieces } from "../../../base/pieces.ts";
import { isSmall, type PythonValue } from "../../pydantic/value.ts";
import type { Value } from "./pbtxt.ts";

/** Characters hashed at a time. */
const CHARACTERS = 4096;
/** Number of values serialised at a time. */
const BATCH = 64;

/** Returns a digest of the configuration as it was read. An omitted field and an explicit default give different digests. */
export function* signatureOf(config: Value): Pieces<string> {
  const signing = new Signing();
  yield* signing.value(config);
  return signing.digest();
}

/** Hashes a serialisation. Equal values give equal digests, and different values give different ones. */
class Signing {
  readonly #hash = new Bun.CryptoHasher("sha256");
  #text = "";
  /** Small values and their names, not yet serialised. */
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
      const item = names === null ? (items[at] as Value) : (value as { readonly [name: string]: Value })[names[at]!];
      if (item === undefined) continue;
      if (names !== null) this.#batch.push(names[at]!);
      if (!this.#takes(item)) yield* this.value(item);
      if (this.#batch.length >= BATCH) this.#flush();
      if (this.#text.length < CHARACTERS) continue;
      this.#hash.update(this.#text);
      this.#text = "";
      yield;
    }
    this.#mark(names === null ? "]" : "}");
  }

  /** Queues a small value. Returns false if the value is too large to serialise in one go. */
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
