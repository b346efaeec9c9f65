/** Asks the server for its models and token counts, before the measurement. */

import type { Clock } from "../../base/clock.ts";
import { jsonObjectIn, looseList, looseObject } from "../../base/json-object.ts";
import { bodyAtMost } from "../../base/read-at-most.ts";
import { TraceError } from "../../workloads/trace.ts";
import { messageOf } from "./answers/error-forms.ts";
import type { Count } from "./datasets/index.ts";
import { isTriton, type LoadDialect } from "./requests/dialects.ts";
import { quoted } from "./requests/quoted.ts";
import { inputOf, type TritonInputs } from "./requests/tensors.ts";

/** Name of the model that accepts text in TensorRT-LLM's model repositories for Triton. */
const TRITON_MODEL = "ensemble";
const ANSWER_S = 30;
/** Seconds for a test with the other scheme (http or https), after the given one failed. */
const OTHER_SCHEME_S = 3;

/** Thrown if nothing could be measured. Its message is one line with the reason. */
export class NoMeasurementError extends TraceError {}

/** Maximum number of model names in a message. The others are only counted. */
const NAMED_MODELS_MOST = 8;
/** Maximum length of a model name. A longer name is ignored, because each request would contain it. */
const MODEL_NAME_MOST = 1024;
/** Maximum number of bytes of a decompressed response. */
export const FETCHED_MOST = 1 << 24;

export class ServerQueries {
  constructor(
    private readonly base: string,
    private readonly options: FetchOptions,
    private readonly clock: Clock,
  ) {}

  /** Returns `preferred`, or the server's first model. Throws a TraceError if there is none, or if the server cannot be reached. */
  async model(dialect: LoadDialect, preferred: string | null): Promise<string> {
    // The gRPC port has no HTTP, so it cannot be asked for models.
    if (dialect === "triton-grpc") return preferred ?? TRITON_MODEL;
    const { status, names } = await this.#listedModels();
    const name = preferred ?? (isTriton(dialect) ? TRITON_MODEL : names[0]);
    if (name !== undefined) return name;
    const says = status === 200 ? "names no model" : `answers HTTP ${status}`;
    throw new TraceError(`${this.base}/v1/models ${says}; name the model with --model`);
  }

  /** Returns the inputs of a Triton model. Throws a TraceError if the server does not report them. */
  async tritonModel(name: string): Promise<TritonInputs> {
    const { status, text, why } = await this.#ask(`/v2/models/${encodeURIComponent(name)}/config`);
    const config = status === 200 ? jsonObjectIn(text) : null;
    const where = `${this.base}/v2/models/${name}/config`;
    if (config === null) throw new TraceError(`${where}: ${why ?? (quoted(text) || `HTTP ${status}`)}`);
    const batched = typeof config.max_batch_size === "number" && config.max_batch_size > 0;
    return {
      name,
      decoupled: looseObject(config.model_transaction_policy)?.decoupled === true,
      inputs: looseList(config.input).map((input) => {
        const { name: inputName, data_type: type, dims, optional } = looseObject(input) ?? {};
        const sizes = looseList(dims).map((size) => (typeof size === "string" ? Number(size) : size));
        const isWhole = sizes.every((size): size is number => Number.isSafeInteger(size));
        if (typeof inputName !== "string" || typeof type !== "string" || !isWhole)
          throw new TraceError(
            `${where}: an input must have a name, a data_type and dims: ${quoted(messageOf(input))}`,
          );
        return inputOf(inputName, type, sizes, optional === true, batched);
      }),
    };
  }

  /**
   * Returns a function that counts tokens on the server. Null if it has no `/tokenize`. Throws a TraceError if it does not
   * know the model.
   */
  async counter(model: string): Promise<Count | null> {
    const ask = async (prompt: string) => {
      const body = JSON.stringify({ model, prompt, add_special_tokens: false });
      const { status, text } = await this.#ask("/tokenize", body);
      const count: unknown = status === 200 ? jsonObjectIn(text)?.count : null;
      return { status, text, count: typeof count === "number" ? count : null };
    };
    const first = await ask("a");
    if (first.count === null) {
      // A gateway may serve models that it does not list. So both the list and the error must show that the model is unknown.
      const refused = first.status === 404 && /model/i.test(quoted(messageOf(jsonObjectIn(first.text)?.error)));
      const unknown = refused ? await this.unknown(model) : null;
      if (unknown !== null) throw new TraceError(unknown);
      return null;
    }
    return async (texts) => {
      const counts: number[] = [];
      for (const text of texts) {
        const { count } = await ask(text);
        if (count === null) throw new TraceError(`${this.base}/tokenize gave no count`);
        counts.push(count);
      }
      return counts;
    };
  }

  /** Returns a sentence if the model is not among those that the server lists, else null. */
  async unknown(model: string): Promise<string | null> {
    const { names } = await this.#listedModels().catch(() => ({ names: [] as readonly string[] }));
    if (names.length === 0 || names.includes(model)) return null;
    const more = names.length - NAMED_MODELS_MOST;
    const named = names.slice(0, NAMED_MODELS_MOST).map(quoted).join(", ") + (more > 0 ? ` and ${more} more` : "");
    return `the server does not know the model "${model}"; it serves ${named}`;
  }

  /** Returns the listed models. Throws a TraceError if the server cannot be reached. Any status counts as an answer. */
  async #listedModels(): Promise<{ readonly status: number; readonly names: readonly string[] }> {
    const { status, text, why } = await this.#ask("/v1/models");
    if (why !== null) throw new TraceError(`cannot reach ${this.base}/v1/models: ${await this.#whyNot(why)}`);
    const ids = looseList(status === 200 ? jsonObjectIn(text)?.data : null).map((model) => looseObject(model)?.id);
    // A name with a lone surrogate cannot be part of a URL.
    const isName = (id: unknown): id is string =>
      typeof id === "string" && id.length <= MODEL_NAME_MOST && id.isWellFormed();
    return { status, names: ids.filter(isName) };
  }

  /** Explains a connection error, and tests whether the other scheme works. */
  async #whyNot(why: string): Promise<string> {
    if (why === "ECONNREFUSED") return `nothing listens there (${why})`;
    if (/CERT|SIGNATURE/.test(why))
      return `${why}; --ssl-ca-certs FILE adds trusted certificates, --insecure skips the check`;
    const other = await otherSchemeOf(this.base, "/v1/models", this.clock);
    if (other === null) return why;
    return `the port speaks ${other.replace(/:.*/, "")} (${why}); use --url ${other}`;
  }

  #ask(path: string, body?: string): Promise<FetchResult> {
    return fetchText(this.base + path, this.options, this.clock, body);
  }
}

/** Returns the address with https in place of http, or the reverse, if the port answers there; else null. */
export async function otherSchemeOf(base: string, path: string, clock: Clock): Promise<string | null> {
  const other = base.startsWith("https:") ? base.replace("https:", "http:") : base.replace("http:", "https:");
  const options = { headers: {}, tls: { rejectUnauthorized: false } };
  const { why, text } = await fetchText(other + path, options, clock, undefined, OTHER_SCHEME_S);
  return why !== null || /HTTP request .*HTTPS/i.test(text) ? null : other;
}

export interface FetchOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: { readonly rejectUnauthorized: boolean; readonly ca?: string };
}

/** Result of a call. `status` is 0 if there was no answer or it was too long; `why` then has the reason. */
export interface FetchResult {
  readonly status: number;
  readonly text: string;
  readonly why: string | null;
}

/**
 * Makes one call in addition to the load: GET, or POST of a JSON body. Never rejects. Keeps at most `FETCHED_MOST` bytes in
 * memory.
 */
export async function fetchText(
  url: string,
  options: FetchOptions,
  clock: Clock,
  body?: string,
  mostS = ANSWER_S,
): Promise<FetchResult> {
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
