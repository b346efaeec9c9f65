/**
 * Turns a front end's request into what the engine needs: the generation, the script of an ordered answer, and log probabilities.
 * A front end has checked the request already, so that only what our engine cannot do is refused here. Source of the fields:
 * `SamplingParams` in `vllm/sampling_params.py`, vLLM 0.33.0.
 */
import { andThen, type MaybePromise } from "../../base/maybe-promise.ts";
import { atOnceOrInTurns } from "../../base/pieces.ts";
import { resultOrError } from "../../base/result-or-error.ts";
import type { Generation } from "../../engine/interface/types.ts";
import { distinctIds } from "../../text/answers/id-set.ts";
import { written } from "../../text/answers/written.ts";
import {
  BrokenScript,
  type Order,
  parseOrder,
  playedScript,
  readOrder,
  type Script,
  touchesEngine,
} from "../../text/canned/script.ts";
import { BrokenStructure } from "../../text/grammar/broken.ts";
import type { Structure } from "../../text/grammar/structure.ts";
import { withCallsWritten } from "../openai/overrides/ordered-calls.ts";
import { type OrderedAnswer, sayableParts } from "../openai/overrides/orders.ts";
import { type ScriptedRequest, ScriptPlayer } from "../openai/overrides/script-player.ts";
import { constraintError, structureOf } from "../openai/request/constraints.ts";
import { generationOf, type PlannedRequest, type RequestPlan } from "../openai/request/generation.ts";
import { REMOTE_PARAMS, Transfers } from "../openai/request/kv-transfer.ts";
import type { LogprobSource } from "../openai/request/logprob-source.ts";
import { seededLogprobs } from "../openai/request/logprobs.ts";
import { repetitionOf } from "../openai/request/order-fields.ts";
import type { LogitBias, Repetition } from "../openai/request/request.ts";
import { DEFAULT_REQUEST_ORDERS } from "../openai/request/request-orders.ts";
import { seedOf } from "../openai/request/sampling.ts";
import { steeringOf } from "../openai/request/steering.ts";
import { type ReasoningSetup, reasoningSetup } from "../openai/tool-calls/reasoning.ts";
import { thinksWith } from "../openai/tool-calls/reasoning-rules.ts";
import type { EngineAdapters } from "./adapters.ts";
import type { EngineKernel } from "./engine-kernel.ts";
import { FRONT_FAULTS_ACCEPTS, type FrontFault, kindOf, readFrontFaults } from "./faults/front-faults.ts";
import { LogprobRows, promptLogprobs } from "./logprob-rows.ts";
import type { LogprobsArrays } from "./messages/outputs.ts";
import type { EngineCoreRequest, SamplingParams } from "./messages/request.ts";

/** A request that the engine can run. */
export interface EngineRun {
  readonly generation: Generation;
  /** The ordered answer. Null: none. */
  readonly script: Script | null;
  readonly logprobs: LogprobRows | null;
  readonly promptLogprobs: LogprobsArrays | null;
  readonly repetition: Repetition | null;
  /** Faults that the front end sees at its outputs. Null: none. */
  readonly faults: readonly FrontFault[] | null;
  /** Transfer parameters of the last output, for the engine that continues the answer. Null: none does. */
  readonly kvTransferParams: Readonly<Record<string, unknown>> | null;
}

/** The reason why a request is not run, for its client. */
export interface RunRefusal {
  readonly refused: string;
}

type TextRequest = EngineCoreRequest & {
  readonly prompt_token_ids: readonly number[];
  readonly sampling_params: SamplingParams;
};

/** Largest token id that the engine holds. */
const ID_MOST = 2 ** 32 - 1;
/** Biases from this size on force or forbid a token. Smaller biases have no effect, because there are no logits to shift. */
const BIAS = 100;
const PRIORITY_MOST = 2 ** 31 - 1;
/** Key of `vllm_xargs` with an order for the answer. */
const ORDER_KEY = "understudy";
const NOT_ALLOWED = "the server does not allow this order: it runs without --allow-request-orders all";
const ECHO: Order = { kind: "echo", text: "", script: null, releases: false };

export class Preparer {
  readonly player: ScriptPlayer;
  readonly #logprobs: LogprobSource;
  readonly #transfers: Transfers;
  readonly #reasoning: ReasoningSetup | null;

  /** `rank`: index of the engine in this process. */
  constructor(
    private readonly kernel: EngineKernel,
    private readonly adapters: EngineAdapters,
    private readonly rank: number,
  ) {
    const { config, text } = kernel;
    const { vocabulary } = text.model;
    const { reasoningParser } = config.text;
    this.player = new ScriptPlayer(kernel);
    this.#logprobs = seededLogprobs(vocabulary.size);
    this.#transfers = new Transfers(kernel.live.values.kvTransferTime, config.engine.seed);
    this.#reasoning = reasoningParser === undefined ? null : reasoningSetup(reasoningParser, vocabulary);
  }

  /** Prepares a request. Returns a promise only if another thread must write or encode the answer, or if the work takes long. */
  prepare(request: EngineCoreRequest): MaybePromise<EngineRun | RunRefusal> {
    const refused = this.#refusalOf(request);
    if (refused !== null) return { refused };
    const wanted = request as TextRequest;
    const { sampling_params: params, prompt_token_ids: prompt } = wanted;
    const orders = resultOrError(BrokenScript, () => this.#ordersOf(params));
    if (orders instanceof BrokenScript) return { refused: `${ORDER_KEY}: ${orders.message}` };
    const outputs = params.structured_outputs === null ? null : new Map(Object.entries(params.structured_outputs));
    const wrong = constraintError(outputs);
    if (wrong !== null) return { refused: wrong };
    const promptIds = Uint32Array.from(prompt);
    const { chance } = this.kernel;
    const fields = { seed: params.seed === null ? null : Number(params.seed), temperature: params.temperature };
    const draft = { request: wanted, promptIds, seed: seedOf(fields, promptIds, chance.nextSeed), ...orders };
    return andThen(this.#writing(draft, structureOf(outputs)), (text) =>
      "refused" in text ? text : this.#made(draft, text),
    );
  }

  #refusalOf(request: EngineCoreRequest): string | null {
    const { prompt_token_ids: prompt, sampling_params: params, lora_request: lora } = request;
    const { engine, openai } = this.kernel.config;
    const { size } = this.kernel.text.model.vocabulary;
    if (params === null) return "this engine only generates text: sampling_params is missing";
    if (request.resumable) return "resumable: this engine does not take a prompt in parts";
    if (prompt === null || prompt.length === 0) return "prompt_token_ids: must have at least one token";
    const strange = prompt.find((id) => id < 0 || id > ID_MOST);
    if (strange !== undefined) return `prompt_token_ids: takes ids from 0 to ${ID_MOST}, not ${strange}`;
    if (prompt.length >= engine.maxModelLen)
      return `a prompt of ${prompt.length} tokens, and the model takes ${engine.maxModelLen}`;
    if (lora !== null && engine.maxLoras === 0) return `lora_request: adapter ${lora.name} needs --enable-lora`;
    if (params.allowed_token_ids?.length === 0) return "allowed_token_ids is not None and empty!";
    const most = openai.requests.maxLogprobs === -1 ? size : openai.requests.maxLogprobs;
    for (const name of ["logprobs", "prompt_logprobs"] as const) {
      const count = countOf(params[name], size);
      if (count !== null && !(count >= 0 && count <= Math.min(most, size)))
        return `${name}: takes 0 to ${Math.min(most, size)}, as --max-logprobs of the engine says, not ${count}`;
    }
    return null;
  }

  /** Returns the answer and the faults that the request orders. Throws a `BrokenScript`. */
  #ordersOf({ extra_args: extra }: SamplingParams): Pick<Draft, "ordered" | "faults"> {
    const allowed = this.kernel.config.openai.requests.requestOrders ?? DEFAULT_REQUEST_ORDERS;
    const given = allowed === "none" ? undefined : extra?.[ORDER_KEY];
    const order = given === undefined ? null : typeof given === "string" ? parseOrder(given) : readOrder(given);
    if (order?.calls !== undefined)
      throw new BrokenScript('"call" needs the tools of the request, which an engine does not know');
    if (order?.releases) this.player.release();
    return {
      ordered: this.#answerOf(order, allowed === "all"),
      faults: order?.fault === undefined ? null : faultsIn(order.fault, allowed === "all"),
    };
  }

  /** Returns the ordered answer, or else the next one of `--script`. Throws a `BrokenScript`. */
  #answerOf(order: Order | null, isTrusted: boolean): OrderedAnswer | null {
    if (order === null || order.kind === "none") {
      const next = this.player.next();
      if (next !== null) return this.#played(next, ECHO);
      return this.kernel.config.text.echo ? { order: ECHO, text: null } : null;
    }
    if (order.kind === "play") return this.#played(this.player.named(order.text), order);
    if (order.script !== null) {
      this.player.check(order.script);
      if (!isTrusted && touchesEngine(order.script)) throw new BrokenScript(NOT_ALLOWED);
    }
    return this.#withText(order);
  }

  #played(script: Script, of: Order): OrderedAnswer {
    return this.#withText({ ...of, ...playedScript(script) });
  }

  #withText(original: Order): OrderedAnswer {
    const order = withCallsWritten(original, { kind: "completion" }, this.kernel.config.text.toolCallParser);
    return { order, text: order.kind === "text" ? order.text : null };
  }

  /** Writes or encodes the text that the answer must have. */
  #writing({ seed, ordered }: Draft, structure: Structure | null): MaybePromise<WrittenText | RunRefusal> {
    const { model } = this.kernel.text;
    const { encoder, vocabulary } = model;
    let orderedIds: Promise<Uint32Array> | null = null;
    if (ordered !== null && ordered.text !== null) {
      const parts = sayableParts(ordered, this.kernel.config.engine.maxModelLen, vocabulary.maxTokenBytes);
      orderedIds = encoder.encode(parts, false);
    }
    if (structure === null)
      return orderedIds === null
        ? NOTHING_WRITTEN
        : orderedIds.then((ids) => ({ ...NOTHING_WRITTEN, orderedIds: ids }));
    // Without a seed the constraint is only checked.
    const writing = written(encoder, structure, ordered === null ? [seed] : []);
    // A grammar does not apply to thinking.
    const isPermitted = ordered !== null && ordered.text === null && this.#reasoning === null;
    const grammar = isPermitted ? import("../openai/overrides/script-grammar.ts") : null;
    return Promise.all([writing, orderedIds, grammar]).then(
      ([[ids = null], orderedIds, permits]) => ({
        orderedIds,
        ids,
        permitted: permits && ((script) => permits.permittedBy(script, structure, vocabulary)),
      }),
      (error: unknown) => {
        if (error instanceof BrokenStructure) return { refused: error.message };
        throw error;
      },
    );
  }

  #made(draft: Draft, { ids, orderedIds, permitted }: WrittenText): MaybePromise<EngineRun | RunRefusal> {
    const { request, promptIds, seed, ordered } = draft;
    const { sampling_params: params, lora_request: lora } = request;
    const adapter = lora === null ? 0 : this.adapters.load(lora);
    if (adapter === null) return { refused: `lora_request: no more than ${this.adapters.names.length} adapters` };
    const { vocabulary } = this.kernel.text.model;
    const fields = this.#fieldsOf(request);
    const whole =
      ordered === null ? null : this.player.script(ordered, orderedIds, [promptIds], { ...fields, n: 1, seed });
    const script = whole !== null && permitted !== null ? permitted(whole) : whole;
    const source = (script && this.player.logprobs(script)?.(0)) ?? this.#logprobs;
    const promptCount = countOf(params.prompt_logprobs, vocabulary.size);
    const rows =
      promptCount === null
        ? null
        : atOnceOrInTurns(promptLogprobs(source, seed, promptIds, promptCount), this.kernel.backend);
    const count = countOf(params.logprobs, vocabulary.size);
    const kv = (params.extra_args?.kv_transfer_params ?? {}) as Readonly<Record<string, unknown>>;
    const [remotePrefill, remoteDecode] = [kv.do_remote_prefill === true, kv.do_remote_decode === true];
    const isTransferred = this.kernel.live.values.kvTransferTime.get() !== undefined && remoteDecode;
    const left = this.kernel.config.engine.maxModelLen - promptIds.length;
    const generation = generationOf(this.#planOf(draft, fields, adapter), {
      id: request.request_id.replace(/-[0-9a-f]{8}$/, ""),
      cut: {
        ids: promptIds,
        maxTokens: Math.max(1, Math.min(params.max_tokens ?? left, left)),
        transferUs: this.#transfers.us({ remotePrefill, remoteDecode }, promptIds.length),
      },
      seed,
      written: ids,
      siblings: undefined,
    });
    return andThen(rows, (prompt) => ({
      generation,
      faults: draft.faults,
      kvTransferParams: isTransferred ? JSON.parse(REMOTE_PARAMS) : null,
      script,
      logprobs: count === null ? null : new LogprobRows(source, seed, count),
      promptLogprobs: prompt,
      repetition:
        params.repetition_detection === null
          ? null
          : repetitionOf(new Map(Object.entries(params.repetition_detection)), params.min_tokens),
    }));
  }

  /** Returns the fields on which text and thinking depend. Only the id tells whether a chat is answered. */
  #fieldsOf(request: TextRequest): PlannedRequest & Pick<ScriptedRequest, "kind"> {
    const { sampling_params: params, external_req_id, request_id, reasoning_parser_kwargs: kwargs } = request;
    const given = kwargs?.chat_template_kwargs;
    const names = typeof given === "object" ? (given as Readonly<Record<string, unknown>> | null) : null;
    const kind = (external_req_id ?? request_id).startsWith("cmpl-") ? "completion" : "chat";
    return {
      kind,
      ignoreEos: params._eos_token_id === null,
      minTokens: Math.max(0, Math.min(params.min_tokens, this.kernel.config.engine.maxModelLen)),
      stopTokenIds: distinctIds(params.stop_token_ids ?? [], this.kernel.text.model.vocabulary.size),
      cacheSalt: request.cache_salt,
      thinks: request.reasoning_ended !== true && thinksWith(this.kernel.config.text.reasoningParser ?? null, names),
      sampling: { thinkingTokenBudget: params.thinking_token_budget },
    };
  }

  #planOf({ request, seed: _ }: Draft, fields: PlannedRequest, adapter: number): RequestPlan {
    const { backend, config, text } = this.kernel;
    const { sampling_params: params, priority } = request;
    const { size } = text.model.vocabulary;
    const badWords = (params._bad_words_token_ids ?? []).map((ids) => Uint32Array.from(ids));
    const allowed = params.allowed_token_ids;
    const sampling = {
      allowedTokenIds: allowed && distinctIds(allowed, size),
      logitBias: params.logit_bias && biasOf(params.logit_bias, size),
    };
    const nowUs = backend.nowUs();
    return {
      text,
      meanReasoningTokens: config.openai.answers.meanReasoningTokens,
      reasoning: this.#reasoning,
      request: fields,
      steering: steeringOf({ ...fields, sampling }, badWords, text.model.vocabulary),
      skipReadingPrefixCache: params.skip_reading_prefix_cache ?? params.prompt_logprobs !== null,
      adapter,
      priority: Math.max(-PRIORITY_MOST, Math.min(priority, PRIORITY_MOST)),
      rank: this.rank,
      arrivalUs: nowUs,
      encodedFromUs: nowUs,
    };
  }
}

/** A request with what was decided about it before its text is written. */
interface Draft {
  readonly request: TextRequest;
  readonly promptIds: Uint32Array;
  readonly seed: number;
  readonly ordered: OrderedAnswer | null;
  readonly faults: readonly FrontFault[] | null;
}

/**
 * `ids`: of a text that fits a constraint. `orderedIds`: of an ordered text. `permitted`: cuts a script at the first token that
 * does not fit a constraint. Null: there is none.
 */
interface WrittenText {
  readonly permitted: ((script: Script) => Script) | null;
  readonly ids: Uint32Array | null;
  readonly orderedIds: Uint32Array | null;
}
const NOTHING_WRITTEN: WrittenText = { ids: null, orderedIds: null, permitted: null };

/** Returns the number of log probabilities per token. -1 means all of the vocabulary, null none. */
const countOf = (count: number | null, size: number): number | null => (count === -1 ? size : count);

/** Reads the faults of an order. Throws a `BrokenScript`. `isTrusted`: it may also have faults that others notice. */
function faultsIn(plan: string, isTrusted: boolean): readonly FrontFault[] {
  const faults = readFrontFaults(plan);
  if (faults === undefined) throw new BrokenScript(`"fault" takes ${FRONT_FAULTS_ACCEPTS}`);
  if (!isTrusted && faults.some(({ name }) => kindOf(name).at !== "output")) throw new BrokenScript(NOT_ALLOWED);
  return faults;
}

function biasOf(bias: ReadonlyMap<number, number>, size: number): LogitBias {
  const ids = (isWanted: (value: number) => boolean) =>
    distinctIds(
      [...bias].flatMap(([id, value]) => (isWanted(value) ? [id] : [])),
      size,
    );
  return { forced: ids((value) => value >= BIAS), never: ids((value) => value <= -BIAS) };
}
