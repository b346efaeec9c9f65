/**
 * Implements the `tensorrtllm` backend: token ids of the server's only engine, in the tensors of the C++ backend
 * (`model_instance_state.cc`, 1.2 line). Streams send one response per step. A request counts when it has ended. A request with
 * `stop` cancels the request with its id. Outputs are omitted unless requested.
 */
import { Finish, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import type { Behaviour, ModelHost, ModelRequest, ModelResponse } from "../behaviours/behaviour.ts";
import { firstNumber, numberTensor, outputs } from "../behaviours/values.ts";
import { bytesOf, type Tensor } from "../tensors/datatypes.ts";
import { constrained, generateSequence, type LlmDeps, StepNotifier } from "./around.ts";
import type { LlmCounts } from "./counts.ts";
import { RequestsById } from "./requests-by-id.ts";
import { perfTensors } from "./trt-perf.ts";
import {
  ExecutorError,
  outputOptionsOf,
  sequenceRequestsOf,
  type TrtOutputOptions,
  type TrtSequenceRequest,
} from "./trt-request.ts";

/** Logit of the likeliest token. All other logits are 0. */
const LOGIT = 20;

export function tensorrtLlm(deps: LlmDeps, counts: LlmCounts): Behaviour {
  const running = new RequestsById<RequestAnswer>();
  let requests = 0;

  function stop(request: ModelRequest, host: ModelHost): void {
    const failure = { message: "Trying to stop a request but request ID is not provided" };
    for (const one of running.withId(request, host)) one.cancel();
    request.send(request.id === "" ? { error: failure, uncounted: true } : { outputs: [], uncounted: true }, true);
  }

  async function answer(request: ModelRequest, host: ModelHost): Promise<void> {
    const arrivalUs = deps.backend.nowUs();
    const options = outputOptionsOf(request, host);
    let wishes: readonly TrtSequenceRequest[];
    try {
      wishes = sequenceRequestsOf(request, host, deps, options);
    } catch (error) {
      if (error instanceof ExecutorError) throw error;
      return request.send({ error: { message: (error as Error).message }, uncounted: true }, true);
    }
    const requestAnswer = new RequestAnswer(request, deps, wishes, options, arrivalUs, (input, output) => {
      counts.lengths(host, input, output);
      running.delete(request, host, requestAnswer);
    });
    running.add(request, host, requestAnswer);
    request.whenCancelled(() => requestAnswer.cancel());
    await requestAnswer.begin();
  }

  return {
    sends: true,
    countsAtEnd: true,
    initialize: (host) => counts.loaded(host, "trtllm"),
    execute(batch, host) {
      for (const request of batch) {
        if (firstNumber(request, "stop", 0) !== 0) {
          stop(request, host);
          continue;
        }
        const id = ++requests;
        void answer(request, host).catch(({ message }: Error) => {
          const why = `Executor failed process requestId ${id} due to the following error: Encountered an error when fetching new request: ${message}`;
          request.send({ error: { message: why } }, true);
        });
      }
      return null;
    },
  };
}

/** The answer to a request, with all its sequences. */
class RequestAnswer {
  readonly #groups: BeamGroup[] = [];
  #left = 0;
  #outputTokens = 0;
  #over = false;
  /** True if an error was sent as the answer. */
  #failed = false;

  constructor(
    private readonly request: ModelRequest,
    private readonly deps: LlmDeps,
    private readonly wishes: readonly TrtSequenceRequest[],
    private readonly shown: TrtOutputOptions,
    private readonly arrivalUs: number,
    private readonly ended: (inputTokens: number, outputTokens: number) => void,
  ) {}

  async begin(): Promise<void> {
    try {
      const made = await Promise.all(
        this.wishes.map(({ structure, seeds }) => constrained(this.deps, structure, seeds)),
      );
      for (const [at, wish] of this.wishes.entries())
        for (let index = 0; index < wish.sequences; index++) this.#groups.push(this.#group(wish, index, made[at]!));
      this.#left = this.#groups.length;
      for (const group of this.#groups) group.submit(this.request.id);
      if (this.#over) for (const group of this.#groups) group.cancel();
    } catch (error) {
      this.#failed = true;
      this.#end();
      for (const group of this.#groups) group.cancel();
      throw error;
    }
  }

  #group(wish: TrtSequenceRequest, index: number, made: readonly (Uint32Array | null)[]): BeamGroup {
    return new BeamGroup(this.deps, wish, index, made, this.shown, this.arrivalUs, (response, tokens, ended) => {
      if (this.#failed) return;
      this.#outputTokens += tokens;
      if (ended) this.#left--;
      const final = this.#left === 0;
      if (final) this.#end();
      this.request.send(response, final);
    });
  }

  #end(): void {
    this.#over = true;
    this.ended(this.wishes[0]!.promptIds.length, this.#outputTokens);
  }

  /** Cancels the request. Each sequence ends with the tokens it has. */
  cancel(): void {
    if (this.#over) return;
    if (this.#groups.length === 0) this.#over = true;
    for (const group of this.#groups) group.cancel();
  }
}

type SendGroupResponse = (response: ModelResponse, newTokens: number, ended: boolean) => void;

/** The beams of one sequence, which share its responses. */
class BeamGroup {
  readonly #beams: readonly Beam[];
  readonly #made: readonly (Uint32Array | null)[];

  constructor(
    private readonly deps: LlmDeps,
    private readonly wish: TrtSequenceRequest,
    private readonly index: number,
    made: readonly (Uint32Array | null)[],
    private readonly shown: TrtOutputOptions,
    private readonly arrivalUs: number,
    tell: SendGroupResponse,
  ) {
    const from = index * wish.beams;
    this.#made = made.slice(from, from + wish.beams);
    const together = new StepNotifier(wish.beams, shown.streams, (ended) => {
      const { response, tokens } = this.#response(ended);
      tell(response, tokens, ended);
    });
    this.#beams = wish.seeds
      .slice(from, from + wish.beams)
      .map((seed) => new Beam(seed, wish.stopWords, together, () => deps.backend.nowUs()));
  }

  submit(id: string): void {
    const { promptIds, maxTokens, minTokens, endId, steering } = this.wish;
    const { eosId } = this.deps.text.vocabulary;
    const ends = endId < 0 || endId === eosId ? [] : [endId];
    for (const [at, beam] of this.#beams.entries()) {
      const sequence = {
        id: this.index === 0 && at === 0 ? id : "",
        promptIds,
        maxTokens,
        minTokens,
        ignoreEos: endId !== eosId,
        stopTokenIds: ends,
        seed: beam.seed,
        steering,
        written: this.#made[at]!,
        cacheSalt: "",
      };
      beam.submission = generateSequence(this.deps, sequence, beam);
    }
  }

  cancel(): void {
    for (const beam of this.#beams) beam.cancel();
  }

  #response(ended: boolean): { readonly response: ModelResponse; readonly tokens: number } {
    const { promptIds, row } = this.wish;
    const shown = this.shown;
    const updates = this.#beams.map((beam) => beam.take());
    const tokens = updates.reduce((all, { ids }) => all + ids.length, 0);
    const prompt = shown.echoes && !shown.streams ? promptIds : NONE;
    const most = prompt.length + Math.max(...updates.map(({ ids }) => ids.length));
    const beams = updates.length;
    const rows = updates.flatMap(({ ids }) => [
      ...prompt,
      ...ids,
      ...new Array(most - prompt.length - ids.length).fill(-1),
    ]);
    const single = (name: string, value: number) => numberTensor(name, "INT32", [1, 1], [value]);
    const lengths = updates.map(({ ids }) => prompt.length + ids.length);
    const allLengths = lengths.reduce((all, length) => all + length, 0);
    const tensors: Tensor[] = [
      numberTensor("output_ids", "INT32", [1, beams, most], rows),
      numberTensor("sequence_length", "INT32", [1, beams], lengths),
      ...this.#logits(updates, ended),
      ...(shown.logProbs ? this.#logProbs(updates) : []),
      single("batch_index", row),
      single("sequence_index", this.index),
      ...(shown.inputTokens ? [single("num_input_tokens", promptIds.length)] : []),
      ...(shown.outputTokens ? [single("num_output_tokens", allLengths)] : []),
    ];
    const [first] = this.#beams;
    if (shown.perfMetrics && ended) tensors.push(...perfTensors(first!, promptIds.length, this.deps, this.arrivalUs));
    return { response: outputs(...tensors), tokens };
  }

  #logProbs(news: readonly BeamUpdate[]): Tensor[] {
    const most = Math.max(...news.map(({ ids }) => ids.length));
    const { logprobs } = this.deps;
    const each = news.map(({ ids, from }, at) => {
      const beam = this.#beams[at]!;
      const values = ids.map((id, i) => logprobs(beam.seed, id, from + i, 0).logprob);
      beam.logProbs += values.reduce((all, value) => all + value, 0);
      return [...values, ...new Array(most - values.length).fill(-1)];
    });
    const sums = this.#beams.map((beam) => beam.logProbs);
    return [
      numberTensor("output_log_probs", "FP32", [1, news.length, most], each.flat()),
      numberTensor("cum_log_probs", "FP32", [1, news.length], sums),
    ];
  }

  #logits(news: readonly BeamUpdate[], ended: boolean): Tensor[] {
    const { contextLogits, generationLogits } = this.shown;
    const { size } = this.deps.text.vocabulary;
    const { promptIds } = this.wish;
    const made: Tensor[] = [];
    const first = this.#beams[0]!.first;
    if (contextLogits && ended)
      made.push(logitsOf("context_logits", [1, promptIds.length, size], [[...promptIds.subarray(1), first]]));
    const ids = news.map((update) => update.ids);
    const most = Math.max(...ids.map(({ length }) => length));
    if (generationLogits) made.push(logitsOf("generation_logits", [1, news.length, most, size], ids));
    return made;
  }
}
const NONE = new Uint32Array();

/** Returns logits that are 0 except for the token that follows at each position. */
function logitsOf(name: string, shape: readonly number[], rows: readonly (readonly number[])[]): Tensor {
  const size = shape.at(-1)!;
  const count = shape.reduce((all, one) => all * one, 1);
  const values = new Float32Array(count);
  const most = shape.at(-2)!;
  for (const [row, ids] of rows.entries())
    for (const [at, id] of ids.entries()) values[(row * most + at) * size + id] = LOGIT;
  return { name, datatype: "FP32", shape, data: bytesOf("FP32", values) };
}

interface BeamUpdate {
  readonly ids: readonly number[];
  /** Number of tokens before `ids`. */
  readonly from: number;
}

/** One beam: a sequence in the engine. */
class Beam implements Receiver {
  submission: Submission | null = null;
  logProbs = 0;
  /** The first token, or 0 before it exists. */
  first = 0;
  /** Times of the first and the last token. */
  firstUs = 0;
  lastUs = 0;
  #ids: number[] = [];
  #takenCount = 0;
  #over = false;

  constructor(
    readonly seed: number,
    readonly stopWords: readonly Uint32Array[],
    readonly together: StepNotifier,
    readonly nowUs: () => number,
  ) {}

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null): void {
    if (this.#over) return;
    // The end token is not part of the answer.
    const end = at + count - (finish === Finish.Stop && count > 0 ? 1 : 0);
    let stopped = false;
    for (let i = at; i < end && !stopped; i++) {
      this.#ids.push(ids[i]!);
      stopped = this.stopWords.some((word) => this.#endsWith(word));
    }
    if (count > 0) {
      this.lastUs = this.nowUs();
      if (this.firstUs === 0) {
        this.firstUs = this.lastUs;
        this.first = ids[at]!;
      }
    }
    if (stopped && finish === null) this.submission?.finish(Finish.Stop, this.#ids.length);
    this.#over = stopped || finish !== null;
    if (this.#over || this.together.streams) this.together.report(this.#over);
  }

  #endsWith(word: Uint32Array): boolean {
    const from = this.#ids.length - word.length;
    return from >= 0 && word.every((id, i) => this.#ids[from + i] === id);
  }

  cancel(): void {
    if (this.#over) return;
    this.#over = true;
    this.submission?.cancel();
    this.together.report(true);
  }

  /** Returns the tokens since the last call. */
  take(): BeamUpdate {
    const from = this.#takenCount;
    this.#takenCount = this.#ids.length;
    return { ids: this.#ids.slice(from), from };
  }
}
