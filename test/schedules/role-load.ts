/** A short load on a server of any role: the same requests each time, in a different order for each seed. */
import { mix } from "./page.ts";

/** Error for a wrong page or answer. */
export class WrongAnswer extends Error {}

/** A load on a server whose threads are delayed. */
export interface ServerLoad {
  /** Sends every request once without delays. Later answers must equal these. */
  learn(): Promise<void>;
  /** Rejects with the first of `failures`. */
  run(seed: number): Promise<void>;
  /** Runs the load of `seed`. Returns the errors: a `WrongAnswer`, or the error of a connection. */
  failures(seed: number): Promise<unknown[]>;
}

export interface LoadRequest {
  readonly name: string;
  /** Returns the part of the answer that is compared with the first answer. Rejects with `WrongAnswer` if there is none. */
  readonly ask: () => Promise<string>;
}

/** Number of groups of requests, which start one millisecond after each other. */
const GROUPS = 4;

export class RoleLoad implements ServerLoad {
  readonly #prepare: () => void;
  readonly #requests: readonly LoadRequest[];
  readonly #expected = new Map<string, string>();

  /** `prepare` is called before each load. */
  constructor(prepare: () => void, requests: readonly LoadRequest[]) {
    this.#prepare = prepare;
    this.#requests = requests;
  }

  async learn(): Promise<void> {
    for (const { name, ask } of this.#requests) this.#expected.set(name, await ask());
  }

  async run(seed: number): Promise<void> {
    for (const reason of await this.failures(seed)) throw reason;
  }

  async failures(seed: number): Promise<unknown[]> {
    this.#prepare();
    const requests = this.#requests;
    const order = [...requests.keys()].sort((a, b) => mix(seed, a) - mix(seed, b));
    const settled = await Promise.allSettled(
      order.map((index, at) => Bun.sleep(at % GROUPS).then(() => this.#ask(requests[index]!))),
    );
    return settled.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
  }

  async #ask({ name, ask }: LoadRequest): Promise<void> {
    const answer = await ask();
    const expected = this.#expected.get(name);
    if (answer !== expected)
      throw new WrongAnswer(`${name}: ${JSON.stringify(answer)}, expected ${JSON.stringify(expected)}`);
  }
}

/** Returns the body of an answer with status 200. Rejects with `WrongAnswer` for other statuses. */
export async function bodyOf(name: string, answer: Promise<Response>): Promise<string> {
  const response = await answer;
  const text = await response.text();
  if (response.status !== 200) throw new WrongAnswer(`${name}: ${response.status} ${text}`);
  return text;
}

export function post(url: string, body: object, headers: object = {}): Promise<Response> {
  const all = { "content-type": "application/json", ...headers };
  return fetch(url, { method: "POST", headers: all, body: JSON.stringify(body) });
}

/** Requests a page of metrics. The compared answer lists which families exist. */
export const pageOf = (name: string, url: string, families: readonly string[]): LoadRequest => ({
  name,
  ask: async () => {
    const text = await bodyOf(name, fetch(url));
    return families.map((family) => `${family} ${text.includes(`\n${family}`)}`).join();
  },
});
