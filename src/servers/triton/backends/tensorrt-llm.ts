/**
 * What does a model of the `tensorrtllm` backend answer? Ids of the server's one engine in the tensors of its C++ backend, one
 * response per step where they stream: `model_instance_state.cc` (1.2 line). A request counts when it has ended; `stop` with a
 * request's id ends that one. Outputs that nobody asked for are left out.
 */
import { Finish, type Receiver, type Submission } from "../../../engine/interface/types.ts";
import type { Behaviour, ModelHost, ModelRequest, ModelResponse } from "../behaviours/behaviour.ts";
import { firstNumber, numberTensor, outputs } from "../behaviours/values.ts";
import { bytesOf, type Tensor } from "../tensors/datatypes.ts";
import { constrained, generateSequence, type LlmAround, StepNews } from "./around.ts";
import type { LlmCounts } from "./counts.ts";
import { RequestsById } from "./requests-by-id.ts";
import { perfTensors } from "./trt-perf.ts";
import { ExecutorError, shownOf, type TrtShown, type TrtWish, wishesOf } from "./trt-request.ts";

/** What the likeliest token's logit is above the others. */
const LOGIT = 20;

export function tensorrtLlm(around: LlmAround, counts: LlmCounts): Behaviour {
  const running = new RequestsById<Answering>();
  let requests = 0;

  function stop(request: ModelRequest, host: ModelHost): void {
    const failure = { message: "Trying to stop a request but request ID is not provided" };
    for (const one of running.named(request, host)) one.cancel();
    request.send(request.id === "" ? { error: failure, uncounted: true } : { outputs: [], uncounted: true }, true);
  }

  async function answer(request: ModelRequest, host: ModelHost): Promise<void> {
    const arrivalUs = around.backend.nowUs();
    const shown = shownOf(request, host);
    let wishes: readonly TrtWish[];
    try {
      wishes = wishesOf(request, host, around, shown);
    } catch (error) {
      if (error instanceof ExecutorError) throw error;
      return request.send({ error: { message: (error as Error).message }, uncounted: true }, true);
    }
    const answering = new Answering(request, around, wishes, shown, arrivalUs, (input, output) => {
      counts.lengths(host, input, output);
      running.delete(request, host, answering);
    });
    running.add(request, host, answering);
    request.whenCancelled(() => answering.cancel());
    await answering.begin();
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

/** All sequences of a request. */
class Answering {
  readonly #request: ModelRequest;
  readonly #around: LlmAround;
  readonly #wishes: readonly TrtWish[];
  readonly #shown: TrtShown;
  readonly #arrivalUs: number;
  readonly #ended: (inputTokens: number, outputTokens: number) => void;
  readonly #groups: Group[] = [];
  #left = 0;
  #outputTokens = 0;
  #over = false;
  /** An error has answered it. */
  #failed = false;

  constructor(
    request: ModelRequest,
    around: LlmAround,
    wishes: readonly TrtWish[],
    shown: TrtShown,
    arrivalUs: number,
    ended: (inputTokens: number, outputTokens: number) => void,
  ) {
    this.#request = request;
    this.#around = around;
    this.#wishes = wishes;
    this.#shown = shown;
    this.#arrivalUs = arrivalUs;
    this.#ended = ended;
  }

  async begin(): Promise<void> {
    try {
      const made = await Promise.all(
        this.#wishes.map(({ structure, seeds }) => constrained(this.#around, structure, seeds)),
      );
      for (const [at, wish] of this.#wishes.entries())
        for (let index = 0; index < wish.sequences; index++) this.#groups.push(this.#group(wish, index, made[at]!));
      this.#left = this.#groups.length;
      for (const group of this.#groups) group.submit(this.#request.id);
      if (this.#over) for (const group of this.#groups) group.cancel();
    } catch (error) {
      this.#failed = true;
      this.#end();
      for (const group of this.#groups) group.cancel();
      throw error;
    }
  }

  #group(wish: TrtWish, index: number, made: readonly (Uint32Array | null)[]): Group {
    return new Group(this.#around, wish, index, made, this.#shown, this.#arrivalUs, (response, tokens, ended) => {
      if (this.#failed) return;
      this.#outputTokens += tokens;
      if (ended) this.#left--;
      const final = this.#left === 0;
      if (final) this.#end();
      this.#request.send(response, final);
    });
  }

  #end(): void {
    this.#over = true;
    this.#ended(this.#wishes[0]!.promptIds.length, this.#outputTokens);
  }

  /** Each sequence ends with what it has. */
  cancel(): void {
    if (this.#over) return;
    if (this.#groups.length === 0) this.#over = true;
    for (const group of this.#groups) group.cancel();
  }
}

type Tell = (response: ModelResponse, newTokens: number, ended: boolean) => void;

/** The beams of one sequence, which share its responses. */
class Group {
  readonly #around: LlmAround;
  readonly #wish: TrtWish;
  readonly #index: number;
  readonly #shown: TrtShown;
  readonly #arrivalUs: number;
  readonly #beams: readonly Beam[];
  readonly #made: readonly (Uint32Array | null)[];

  constructor(
    around: LlmAround,
    wish: TrtWish,
    index: number,
    made: readonly (Uint32Array | null)[],
    shown: TrtShown,
    arrivalUs: number,
    tell: Tell,
  ) {
    this.#around = around;
    this.#wish = wish;
    this.#index = index;
    this.#shown = shown;
    this.#arrivalUs = arrivalUs;
    const from = index * wish.beams;
    this.#made = made.slice(from, from + wish.beams);
    const together = new StepNews(wish.beams, shown.streams, (ended) => {
      const { response, tokens } = this.#response(ended);
      tell(response, tokens, ended);
    });
    this.#beams = wish.seeds
      .slice(from, from + wish.beams)
      .map((seed) => new Beam(seed, wish.stopWords, together, () => around.backend.nowUs()));
  }

  submit(id: string): void {
    const { promptIds, maxTokens, minTokens, endId, steering } = this.#wish;
    const { eosId } = this.#around.text.vocabulary;
    const ends = endId < 0 || endId === eosId ? [] : [endId];
    for (const [at, beam] of this.#beams.entries()) {
      const wanted = {
        id: this.#index === 0 && at === 0 ? id : "",
        promptIds,
        maxTokens,
        minTokens,
        ignoreEos: endId !== eosId,
        stopTokenIds: ends,
        seed: beam.seed,
        steering,
        written: this.#made[at]!,
        salt: "",
      };
      beam.submission = generateSequence(this.#around, wanted, beam);
    }
  }

  cancel(): void {
    for (const beam of this.#beams) beam.cancel();
  }

  #response(ended: boolean): { readonly response: ModelResponse; readonly tokens: number } {
    const { promptIds, row } = this.#wish;
    const shown = this.#shown;
    const news = this.#beams.map((beam) => beam.take());
    const tokens = news.reduce((all, { ids }) => all + ids.length, 0);
    const prompt = shown.echoes && !shown.streams ? promptIds : NONE;
    const most = prompt.length + Math.max(...news.map(({ ids }) => ids.length));
    const beams = news.length;
    const rows = news.flatMap(({ ids }) => [
      ...prompt,
      ...ids,
      ...new Array(most - prompt.length - ids.length).fill(-1),
    ]);
    const single = (name: string, value: number) => numberTensor(name, "INT32", [1, 1], [value]);
    const lengths = news.map(({ ids }) => prompt.length + ids.length);
    const tensors: Tensor[] = [
      numberTensor("output_ids", "INT32", [1, beams, most], rows),
      numberTensor("sequence_length", "INT32", [1, beams], lengths),
      ...this.#logits(news, ended),
      ...(shown.logProbs ? this.#logProbs(news) : []),
      single("batch_index", row),
      single("sequence_index", this.#index),
      ...(shown.inputTokens ? [single("num_input_tokens", promptIds.length)] : []),
      ...(shown.outputTokens
        ? [
            single(
              "num_output_tokens",
              lengths.reduce((all, one) => all + one, 0),
            ),
          ]
        : []),
    ];
    const [first] = this.#beams;
    if (shown.perfMetrics && ended)
      tensors.push(...perfTensors(first!, promptIds.length, this.#around, this.#arrivalUs));
    return { response: outputs(...tensors), tokens };
  }

  #logProbs(news: readonly BeamNews[]): Tensor[] {
    const most = Math.max(...news.map(({ ids }) => ids.length));
    const { logprobs } = this.#around;
    const each = news.map(({ ids, from }, at) => {
      const beam = this.#beams[at]!;
      const values = ids.map((id, i) => logprobs(beam.seed, id, from + i, 0).logprob);
      beam.logProbs += values.reduce((all, one) => all + one, 0);
      return [...values, ...new Array(most - values.length).fill(-1)];
    });
    const sums = this.#beams.map((beam) => beam.logProbs);
    return [
      numberTensor("output_log_probs", "FP32", [1, news.length, most], each.flat()),
      numberTensor("cum_log_probs", "FP32", [1, news.length], sums),
    ];
  }

  #logits(news: readonly BeamNews[], ended: boolean): Tensor[] {
    const { contextLogits, generationLogits } = this.#shown;
    const { size } = this.#around.text.vocabulary;
    const { promptIds } = this.#wish;
    const made: Tensor[] = [];
    const first = this.#beams[0]!.first;
    if (contextLogits && ended)
      made.push(logitsOf("context_logits", [1, promptIds.length, size], [[...promptIds.subarray(1), first]]));
    const most = Math.max(...news.map(({ ids }) => ids.length));
    if (generationLogits)
      made.push(
        logitsOf(
          "generation_logits",
          [1, news.length, most, size],
          news.map(({ ids }) => ids),
        ),
      );
    return made;
  }
}
const NONE = new Uint32Array();

/** Each place is 0 for all tokens but the one that follows there. */
function logitsOf(name: string, shape: readonly number[], rows: readonly (readonly number[])[]): Tensor {
  const size = shape.at(-1)!;
  const count = shape.reduce((all, one) => all * one, 1);
  const values = new Float32Array(count);
  const most = shape.at(-2)!;
  for (const [row, ids] of rows.entries())
    for (const [at, id] of ids.entries()) values[(row * most + at) * size + id] = LOGIT;
  return { name, datatype: "FP32", shape, data: bytesOf(values) };
}

interface BeamNews {
  readonly ids: readonly number[];
  /** How many came before them. */
  readonly from: number;
}

/** One sequence of the engine. */
class Beam implements Receiver {
  submission: Submission | null = null;
  logProbs = 0;
  /** The first token; 0 before it is there. */
  first = 0;
  /** When its first and its last token came. */
  firstUs = 0;
  lastUs = 0;
  #ids: number[] = [];
  #told = 0;
  #over = false;

  constructor(
    readonly seed: number,
    readonly stopWords: readonly Uint32Array[],
    readonly together: StepNews,
    readonly nowUs: () => number,
  ) {}

  onTokens(ids: Int32Array, at: number, count: number, finish: Finish | null): void {
    if (this.#over) return;
    // The end itself is no token of the answer.
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
    if (this.#over || this.together.streams) this.together.news(this.#over);
  }

  #endsWith(word: Uint32Array): boolean {
    const from = this.#ids.length - word.length;
    return from >= 0 && word.every((id, i) => this.#ids[from + i] === id);
  }

  cancel(): void {
    if (this.#over) return;
    this.#over = true;
    this.submission?.cancel();
    this.together.news(true);
  }

  /** What came since the last time. */
  take(): BeamNews {
    const from = this.#told;
    this.#told = this.#ids.length;
    return { ids: this.#ids.slice(from), from };
  }
}
