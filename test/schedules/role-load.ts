/** A short load on a server of any role: the same requests each time, in another order for each seed. */
import { mix } from "./page.ts";

/** A page or an answer that is not as it must be. */
export class Wrong extends Error {}

/** What is asked of a server under delays. */
export interface ServerLoad {
  /** Asks everything once without delays: what is answered then is expected from now on. */
  learn(): Promise<void>;
  /** Rejects with the first of `failures`. */
  run(seed: number): Promise<void>;
  /** Puts the load of `seed` on the server. Returns what failed: a `Wrong`, or the error of a connection. */
  failures(seed: number): Promise<unknown[]>;
}

export interface Asked {
  readonly name: string;
  /** Returns what is compared with the first answer. Rejects with `Wrong` if there is none. */
  readonly ask: () => Promise<string>;
}

/** Requests begin in groups, a millisecond after each other. */
const GROUPS = 4;

export class RoleLoad implements ServerLoad {
  readonly #prepare: () => void;
  readonly #asked: readonly Asked[];
  readonly #expected = new Map<string, string>();

  /** `prepare` is called before each load. */
  constructor(prepare: () => void, asked: readonly Asked[]) {
    this.#prepare = prepare;
    this.#asked = asked;
  }

  async learn(): Promise<void> {
    for (const { name, ask } of this.#asked) this.#expected.set(name, await ask());
  }

  async run(seed: number): Promise<void> {
    for (const reason of await this.failures(seed)) throw reason;
  }

  async failures(seed: number): Promise<unknown[]> {
    this.#prepare();
    const asked = this.#asked;
    const order = [...asked.keys()].sort((a, b) => mix(seed, a) - mix(seed, b));
    const settled = await Promise.allSettled(
      order.map((one, at) => Bun.sleep(at % GROUPS).then(() => this.#ask(asked[one]!))),
    );
    return settled.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
  }

  async #ask({ name, ask }: Asked): Promise<void> {
    const answer = await ask();
    const expected = this.#expected.get(name);
    if (answer !== expected)
      throw new Wrong(`${name}: ${JSON.stringify(answer)}, expected ${JSON.stringify(expected)}`);
  }
}

/** The body of an answer of status 200. Rejects with `Wrong` otherwise. */
export async function bodyOf(name: string, answer: Promise<Response>): Promise<string> {
  const response = await answer;
  const text = await response.text();
  if (response.status !== 200) throw new Wrong(`${name}: ${response.status} ${text}`);
  return text;
}

export function post(url: string, body: object, headers: object = {}): Promise<Response> {
  const all = { "content-type": "application/json", ...headers };
  return fetch(url, { method: "POST", headers: all, body: JSON.stringify(body) });
}

/** Asks for a page of metrics. Returns whether each family is there. */
export const pageOf = (name: string, url: string, families: readonly string[]): Asked => ({
  name,
  ask: async () => {
    const text = await bodyOf(name, fetch(url));
    return families.map((family) => `${family} ${text.includes(`\n${family}`)}`).join();
  },
});
