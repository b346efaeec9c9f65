/** Error for a constraint that vLLM refuses or that is not supported here. Clients get its message. */
export class BrokenStructure extends Error {
  override readonly name = "BrokenStructure";
}
