/** A constraint that vLLM refuses, or that is not drawn here; the message is the answer's. */
export class BrokenStructure extends Error {
  override readonly name = "BrokenStructure";
}
