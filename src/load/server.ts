/** What does the server say of itself before anything is measured? Its models, and how it counts tokens. */
import type { Clock } from "../clock.ts";
import { TraceError } from "../traces/trace.ts";
import type { Dialect } from "./answer.ts";
import type { Count } from "./datasets/index.ts";

/** The model of TensorRT-LLM's repositories for Triton that takes text. */
const TRITON_MODEL = "ensemble";
const ANSWER_S = 30;

/** Nothing could be measured: one line that says why. */
export class Unmeasured extends TraceError {}

export class ServerTalk {
  readonly #base: string;
  readonly #options: FetchOptions;
  readonly #clock: Clock;

  constructor(base: string, options: FetchOptions, clock: Clock) {
    this.#base = base;
    this.#options = options;
    this.#clock = clock;
  }

  /** The first of its models. Throws an Unmeasured that says why there is none. */
  async firstModel(dialect: Dialect): Promise<string> {
    if (dialect === "triton-generate") return TRITON_MODEL;
    const where = `${this.#base}/v1/models`;
    const { status, text, why } = await this.#ask("/v1/models");
    if (why !== null) throw new Unmeasured(`cannot reach ${where}: ${why}`);
    if (status !== 200) throw new Unmeasured(`${where} answers HTTP ${status}; name the model with --model`);
    const id: unknown = json(text)?.data?.[0]?.id;
    if (typeof id === "string") return id;
    throw new Unmeasured(`${where} names no model; name it with --model`);
  }

  /** How it counts; null: it has no `/tokenize`. */
  async counter(model: string): Promise<Count | null> {
    const one = async (prompt: string): Promise<number | null> => {
      const body = JSON.stringify({ model, prompt, add_special_tokens: false });
      const { status, text } = await this.#ask("/tokenize", body);
      const count: unknown = status === 200 ? json(text)?.count : null;
      return typeof count === "number" ? count : null;
    };
    if ((await one("a")) === null) return null;
    return async (texts) => {
      const counts: number[] = [];
      for (const text of texts) {
        const count = await one(text);
        if (count === null) throw new TraceError(`${this.#base}/tokenize gave no count`);
        counts.push(count);
      }
      return counts;
    };
  }

  #ask(path: string, body?: string): Promise<Fetched> {
    return fetched(this.#base + path, this.#options, this.#clock, body);
  }
}

export interface FetchOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: { readonly rejectUnauthorized: boolean; readonly ca?: string };
}

/** `status` 0: there was no answer, and `why` says the reason. */
export interface Fetched {
  readonly status: number;
  readonly text: string;
  readonly why: string | null;
}

/** One call beside the load: GET, or POST of a JSON body. */
export async function fetched(url: string, options: FetchOptions, clock: Clock, body?: string): Promise<Fetched> {
  const { headers, tls } = options;
  const stop = new AbortController();
  const late = clock.at(clock.now() + ANSWER_S * 1e6, () => stop.abort());
  try {
    const post = body === undefined ? {} : { method: "POST", body };
    const type = body === undefined ? [] : [["Content-Type", "application/json"] as const];
    const all = Object.fromEntries([...type, ...Object.entries(headers)]);
    const response = await fetch(url, { ...post, headers: all, tls, signal: stop.signal });
    return { status: response.status, text: await response.text(), why: null };
  } catch (failure) {
    const { code, message } = failure as { code?: string; message?: string };
    const why = stop.signal.aborted ? `no answer within ${ANSWER_S} s` : (code ?? message ?? String(failure));
    return { status: 0, text: "", why };
  } finally {
    late();
  }
}

// biome-ignore lint/suspicious/noExplicitAny: what a server says may be anything
function json(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
