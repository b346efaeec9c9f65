/** What do a request's first lines say? */

export interface Head {
  readonly method: string;
  /** Path and query, as they were sent. */
  readonly target: string;
  /** "1.1", "1.0", "0.9", "2.0". */
  readonly version: string;
  readonly fields: Fields;
  /** The connection goes on after the answer, by what the request says. */
  readonly keepAlive: boolean;
}

/** The part of `Headers` that is used, with Starlette's reading: of two lines the first counts. */
export class Fields {
  readonly #names: readonly string[];
  readonly #values: readonly string[];

  /** Names as they were sent. */
  constructor(names: readonly string[], values: readonly string[]) {
    this.#names = names.map((name) => name.toLowerCase());
    this.#values = values;
  }

  /** Bytes as Latin-1; `name` in small letters. */
  get(name: string): string | null {
    const at = this.#names.indexOf(name);
    return at === -1 ? null : (this.#values[at] ?? "");
  }

  has(name: string): boolean {
    return this.#names.includes(name);
  }
}
