/** Facts about the block hashes of a publisher, as its users state them. Types only. */
import type { HashAlgorithm } from "../../kv-events/hash-algorithms.ts";

/** Facts from which block hashes are computed. */
export interface HashFacts {
  /** Value of `--prefix-caching-hash-algo`. Absent: unknown. */
  readonly hashAlgorithm?: HashAlgorithm;
  /** Value of PYTHONHASHSEED. Absent: unknown. */
  readonly hashSeed?: string;
  /** Paths of LoRA adapters by name, because block hashes cover them. */
  readonly loraPaths?: Readonly<Record<string, string>>;
}
