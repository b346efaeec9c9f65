/** Preloaded into a program: makes the core trap when a request is aborted. */
const Native = WebAssembly.Instance;

WebAssembly.Instance = class {
  readonly exports: Readonly<Record<string, unknown>>;

  constructor(...parameters: ConstructorParameters<typeof Native>) {
    const exports = { ...new Native(...parameters).exports };
    const close = () => {
      throw new WebAssembly.RuntimeError("planted in the core");
    };
    this.exports = "schedule" in exports ? { ...exports, close } : exports;
  }
} as typeof WebAssembly.Instance;
