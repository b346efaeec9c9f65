/** Writes responses of one request that differ only in their data. Encodes the part before the data once. */
import { areSame, type Tensor } from "../tensors/datatypes.ts";
import type { DescribedParts, ResponseParts, ResponseWriter } from "./infer-response.ts";

export class AlikeResponses {
  /** The last response without its data, or null before the first one. */
  #like: DescribedParts["outputs"] | null = null;
  /** Encoded part before the data, or null until a second response has the same form. */
  #before: Uint8Array | null = null;

  constructor(private readonly writer: ResponseWriter) {}

  /** Writes a response like `streamed` without an error. Returns the length of the message in the writer's `bytes`. */
  write(parts: ResponseParts): number {
    const { parameters, final, outputs } = parts;
    if (final !== false || parameters.length > 0) return this.writer.streamed("", parts);
    if (this.#like === null || !areAlike(this.#like, outputs)) {
      this.#like = outputs.map(({ name, datatype, shape }) => ({ name, datatype, shape: [...shape] }));
      this.#before = null;
      return this.writer.streamed("", parts);
    }
    this.#before ??= this.writer.before(parts);
    return this.writer.streamedBehind(this.#before, outputs);
  }
}

function areAlike(one: DescribedParts["outputs"], other: readonly Tensor[]): boolean {
  if (one.length !== other.length) return false;
  for (let at = 0; at < one.length; at++) {
    const [a, b] = [one[at]!, other[at]!];
    if (a.name !== b.name || a.datatype !== b.datatype || !areSame(a.shape, b.shape)) return false;
  }
  return true;
}
