/** Ids of texts that a constraint asks for: from the encoder's thread, or made here where there is none. */
import type { Structure } from "../structured/structure.ts";
import type { Encoder } from "./types.ts";

/** One text for each seed. Rejects with `BrokenStructure`. */
export async function written(
  encoder: Encoder,
  structure: Structure,
  seeds: readonly number[],
): Promise<Uint32Array[]> {
  if (encoder.write) return encoder.write(structure, seeds);
  const { writerOf } = await import("../structured/structure.ts");
  const text = writerOf(structure);
  const allowSpecial = structure.kind === "calls" || structure.kind === "tags";
  return Promise.all(seeds.map((seed, index) => encoder.encode([text(seed, index)], allowSpecial)));
}
