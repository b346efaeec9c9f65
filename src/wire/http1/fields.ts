/** What do a request's first lines say? */

export interface Head {
  readonly method: string;
  /** Path and query, as they were sent. */
  readonly target: string;
  /** "1.1", "1.0", "0.9", "2.0". */
  readonly version: string;
  readonly fields: HeaderFields;
  /** The connection goes on after the answer, by what the request says. */
  readonly keepAlive: boolean;
}

/** The part of `Headers` that is used, with Starlette's reading: of two lines the first counts. */
export class HeaderFields {
  readonly #sent: readonly string[];
  readonly #names: readonly string[];
  readonly #values: readonly string[];

  /** Names as they were sent; both lists are the fields' own from now on. */
  constructor(names: readonly string[], values: readonly string[]) {
    this.#sent = names;
    this.#names = names.map(small);
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

  /** As `Headers` does; a name that was sent several times comes as often. */
  forEach(act: (value: string, name: string) => void): void {
    for (const [at, name] of this.#names.entries()) act(this.#values[at] ?? "", name);
  }

  /** Calls `act` for each line in the order sent. Names keep the letter case in which they were sent. */
  eachSent(act: (name: string, value: string) => void): void {
    for (const [at, name] of this.#sent.entries()) act(name, this.#values[at] ?? "");
  }
}

/** Names that came before, in small letters. */
const seen = new Map<string, string>();
const SEEN_MOST = 256;
const SEEN_CHARACTERS = 64;

function small(name: string): string {
  const known = seen.get(name);
  if (known !== undefined) return known;
  const lower = name.toLowerCase();
  if (seen.size < SEEN_MOST && name.length <= SEEN_CHARACTERS) seen.set(name, lower);
  return lower;
}
