/** Ids of texts that a constraint asks for: from the encoder's thread, or made here where there is none. */
import type { Structure } from "../grammar/structure.ts";
import type { Encoder } from "../tokens/types.ts";

/** Makes one text for each seed; null if the answer says what it likes. Rejects with `BrokenStructure`. */
export async function written(
  encoder: Encoder,
  structure: Structure,
  seeds: readonly number[],
): Promise<(Uint32Array | null)[]> {
  if (encoder.write) return encoder.write(structure, seeds);
  const { allowsSpecial, writerOf } = await import("../grammar/structure.ts");
  const write = writerOf(structure);
  const ids = (text: string | null) => (text === null ? null : encoder.encode([text], allowsSpecial(structure, text)));
  return Promise.all(seeds.map((seed, index) => ids(write(seed, index))));
}
