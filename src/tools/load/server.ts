/** Asks the server before anything is measured: for its models, and how it counts tokens. */

import type { Clock } from "../../base/clock.ts";
import { jsonObjectIn, looseList, looseObject } from "../../base/json-object.ts";
import { bodyAtMost } from "../../base/read-at-most.ts";
import { TraceError } from "../../workloads/trace.ts";
import { messageOf } from "./answers/error-forms.ts";
import type { Count } from "./datasets/index.ts";
import { isTriton, type LoadDialect } from "./requests/dialects.ts";
import { quoted } from "./requests/quoted.ts";
import { inputOf, type TritonInputs } from "./requests/tensors.ts";

/** The model of TensorRT-LLM's repositories for Triton that takes text. */
const TRITON_MODEL = "ensemble";
const ANSWER_S = 30;
/** Seconds that the other scheme is tried, once the right one has failed. */
const OTHER_SCHEME_S = 3;

/** Nothing could be measured: one line that says why. */
export class Unmeasured extends TraceError {}

/** Models beyond these are counted. */
const NAMED_MODELS_MOST = 8;
/** A longer name of a model is ignored: it would stand in each request. */
const MODEL_NAME_MOST = 1024;
/** Most bytes of an answer, unpacked. */
export const FETCHED_MOST = 1 << 24;

export class ServerTalk {
  readonly #base: string;
  readonly #options: FetchOptions;
  readonly #clock: Clock;

  constructor(base: string, options: FetchOptions, clock: Clock) {
    this.#base = base;
    this.#options = options;
    this.#clock = clock;
  }

  /** `asked`, or the first of its models. Throws a TraceError where there is none, or nobody answers. */
  async model(dialect: LoadDialect, asked: string | null): Promise<string> {
    // That port speaks nothing but gRPC.
    if (dialect === "triton-grpc") return asked ?? TRITON_MODEL;
    const { status, names } = await this.#served();
    const name = asked ?? (isTriton(dialect) ? TRITON_MODEL : names[0]);
    if (name !== undefined) return name;
    const says = status === 200 ? "names no model" : `answers HTTP ${status}`;
    throw new TraceError(`${this.#base}/v1/models ${says}; name the model with --model`);
  }

  /** What a model of a Triton server takes. Throws a TraceError where nobody says it. */
  async tritonModel(name: string): Promise<TritonInputs> {
    const { status, text, why } = await this.#ask(`/v2/models/${encodeURIComponent(name)}/config`);
    const config = status === 200 ? jsonObjectIn(text) : null;
    const where = `${this.#base}/v2/models/${name}/config`;
    if (config === null) throw new TraceError(`${where}: ${why ?? (quoted(text) || `HTTP ${status}`)}`);
    const batched = typeof config.max_batch_size === "number" && config.max_batch_size > 0;
    return {
      name,
      decoupled: looseObject(config.model_transaction_policy)?.decoupled === true,
      inputs: looseList(config.input).map((input) => {
        const { name: of, data_type: type, dims, optional } = looseObject(input) ?? {};
        const sizes = looseList(dims).map((size) => (typeof size === "string" ? Number(size) : size));
        const isWhole = sizes.every((size): size is number => Number.isSafeInteger(size));
        if (typeof of !== "string" || typeof type !== "string" || !isWhole)
          throw new TraceError(
            `${where}: an input must have a name, a data_type and dims: ${quoted(messageOf(input))}`,
          );
        return inputOf(of, type, sizes, optional === true, batched);
      }),
    };
  }

  /** How it counts; null: it has no `/tokenize`. Throws a TraceError where it does not know the model. */
  async counter(model: string): Promise<Count | null> {
    const ask = async (prompt: string) => {
      const body = JSON.stringify({ model, prompt, add_special_tokens: false });
      const { status, text } = await this.#ask("/tokenize", body);
      const count: unknown = status === 200 ? jsonObjectIn(text)?.count : null;
      return { status, text, count: typeof count === "number" ? count : null };
    };
    const first = await ask("a");
    if (first.count === null) {
      // A gateway may serve models that it does not list, so both must say so: the list and the refusal.
      const refused = first.status === 404 && /model/i.test(quoted(messageOf(jsonObjectIn(first.text)?.error)));
      const unknown = refused ? await this.unknown(model) : null;
      if (unknown !== null) throw new TraceError(unknown);
      return null;
    }
    return async (texts) => {
      const counts: number[] = [];
      for (const text of texts) {
        const { count } = await ask(text);
        if (count === null) throw new TraceError(`${this.#base}/tokenize gave no count`);
        counts.push(count);
      }
      return counts;
    };
  }

  /** What to say where the model is none of those that the server names; null: it may be one. */
  async unknown(model: string): Promise<string | null> {
    const { names } = await this.#served().catch(() => ({ names: [] as readonly string[] }));
    if (names.length === 0 || names.includes(model)) return null;
    const more = names.length - NAMED_MODELS_MOST;
    const shown = names.slice(0, NAMED_MODELS_MOST).map(quoted).join(", ") + (more > 0 ? ` and ${more} more` : "");
    return `the server does not know the model "${model}"; it serves ${shown}`;
  }

  /** The models that it names. Throws a TraceError where nobody answers; any status is an answer. */
  async #served(): Promise<{ readonly status: number; readonly names: readonly string[] }> {
    const { status, text, why } = await this.#ask("/v1/models");
    if (why !== null) throw new TraceError(`cannot reach ${this.#base}/v1/models: ${await this.#whyNot(why)}`);
    const ids = looseList(status === 200 ? jsonObjectIn(text)?.data : null).map((model) => looseObject(model)?.id);
    // A name with half of a character can stand in no URL.
    const isName = (id: unknown): id is string =>
      typeof id === "string" && id.length <= MODEL_NAME_MOST && id.isWellFormed();
    return { status, names: ids.filter(isName) };
  }

  /** A code alone helps nobody: what it means, and whether the other scheme is the right one. */
  async #whyNot(why: string): Promise<string> {
    if (why === "ECONNREFUSED") return `nothing listens there (${why})`;
    if (/CERT|SIGNATURE/.test(why)) return `${why}; --ssl-ca-certs FILE names whom to trust, --insecure asks nobody`;
    const other = this.#base.startsWith("https:")
      ? this.#base.replace("https:", "http:")
      : this.#base.replace("http:", "https:");
    const options = { headers: {}, tls: { rejectUnauthorized: false } };
    const answer = await fetched(`${other}/v1/models`, options, this.#clock, undefined, OTHER_SCHEME_S);
    if (answer.why !== null || /HTTP request .*HTTPS/i.test(answer.text)) return why;
    return `the port speaks ${other.replace(/:.*/, "")} (${why}); take --url ${other}`;
  }

  #ask(path: string, body?: string): Promise<Fetched> {
    return fetched(this.#base + path, this.#options, this.#clock, body);
  }
}

export interface FetchOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: { readonly rejectUnauthorized: boolean; readonly ca?: string };
}

/** `status` 0: there was no answer, or it was too long, and `why` says the reason. */
export interface Fetched {
  readonly status: number;
  readonly text: string;
  readonly why: string | null;
}

/** Makes one call beside the load: GET, or POST of a JSON body. Never rejects; holds at most `FETCHED_MOST` bytes. */
export async function fetched(
  url: string,
  options: FetchOptions,
  clock: Clock,
  body?: string,
  mostS = ANSWER_S,
): Promise<Fetched> {
  const { headers, tls } = options;
  const stop = new AbortController();
  const late = clock.at(clock.now() + mostS * 1e6, () => stop.abort());
  try {
    const post = body === undefined ? {} : { method: "POST", body };
    const type = body === undefined ? [] : [["Content-Type", "application/json"] as const];
    const all = Object.fromEntries([...type, ...Object.entries(headers)]);
    const response = await fetch(url, { ...post, headers: all, tls, signal: stop.signal });
    const bytes = await bodyAtMost(response, FETCHED_MOST);
    if (bytes === null) return { status: 0, text: "", why: `an answer of more than ${FETCHED_MOST / 2 ** 20} MiB` };
    return { status: response.status, text: new TextDecoder().decode(bytes), why: null };
  } catch (failure) {
    const { code, message } = failure as { code?: string; message?: string };
    const why = stop.signal.aborted ? `no answer within ${mostS} s` : quoted(code ?? message ?? String(failure));
    return { status: 0, text: "", why };
  } finally {
    late();
    stop.abort();
  }
}
