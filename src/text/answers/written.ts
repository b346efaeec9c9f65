/** Makes the token IDs of texts that fit a constraint, in the encoder's thread if there is one, else here. */
import type { Structure } from "../grammar/structure.ts";
import type { Encoder } from "../tokens/types.ts";

/** Returns the IDs of a text per seed, or null for an answer without a constraint. Rejects with `BrokenStructure`. */
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
