/** How do responses of one request leave that differ in their data alone? What stands before the data is written once. */
import type { Tensor } from "../tensors/datatypes.ts";
import type { DescribedParts, ResponseParts, ResponseWriter } from "./infer-response.ts";

export class AlikeResponses {
  readonly #writer: ResponseWriter;
  /** The last response, without its data; null: there was none of this kind. */
  #like: DescribedParts["outputs"] | null = null;
  /** Before the data of responses like it; null: there has been one of them. */
  #before: Uint8Array | null = null;

  constructor(writer: ResponseWriter) {
    this.#writer = writer;
  }

  /** Gives how many of the writer's `bytes` are the message, as `streamed` without an error writes it. */
  write(parts: ResponseParts): number {
    const { parameters, final, outputs } = parts;
    if (final !== false || parameters.length > 0) return this.#writer.streamed("", parts);
    if (this.#like === null || !areAlike(this.#like, outputs)) {
      this.#like = outputs.map(({ name, datatype, shape }) => ({ name, datatype, shape: [...shape] }));
      this.#before = null;
      return this.#writer.streamed("", parts);
    }
    this.#before ??= this.#writer.before(parts);
    return this.#writer.streamedBehind(this.#before, outputs);
  }
}

function areAlike(one: DescribedParts["outputs"], other: readonly Tensor[]): boolean {
  if (one.length !== other.length) return false;
  for (let at = 0; at < one.length; at++) {
    const [a, b] = [one[at]!, other[at]!];
    if (a.name !== b.name || a.datatype !== b.datatype || a.shape.length !== b.shape.length) return false;
    for (let axis = 0; axis < a.shape.length; axis++) if (a.shape[axis] !== b.shape[axis]) return false;
  }
  return true;
}
