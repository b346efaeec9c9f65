/** How does a body become generations, and what comes back? Translation only: every decision is the engine's. */

import type { Script } from "../../content/script.ts";
import type { Steering } from "../../content/steered.ts";
import type { Choices, Generation, Submission } from "../../engine/types.ts";
import { engineBusy, engineDead, internalError, paused, pausedInChatStream } from "../errors.ts";
import type { About, Background, Form } from "../form.ts";
import { isLarge } from "../pieces.ts";
import type { ChatRequest, CompletionRequest, ErrorAnswer, Limits } from "../request.ts";
import type { Adapters } from "./adapters.ts";
import { type Asked, engineId, promptId } from "./answer.ts";
import { Arrivals } from "./arrivals.ts";
import { askedOf } from "./asked.ts";
import { brokenForm, brokenStream } from "./broken-streams.ts";
import { CacheJudge, leastShare } from "./cache-threshold.ts";
import { CollectedAnswer } from "./collect.ts";
import { checkingOf, type Writing, type Written, writingOf } from "./constrained.ts";
import { fromDataset } from "./dataset.ts";
import { Door } from "./door.ts";
import { type Entry, readAs, readLarge } from "./entry.ts";
import { follow } from "./follow.ts";
import { FormStream } from "./form-stream.ts";
import type { OpenAiOptions } from "./front.ts";
import { type Cut, generationOf, type Placed } from "./generation.ts";
import type { Context, Http } from "./http.ts";
import { Transfers } from "./kv-transfer.ts";
import { checkPrompt, truncatePrompt } from "./limits.ts";
import { loadHeader } from "./load-header.ts";
import { type Ordered, Orders } from "./orders.ts";
import { encodeInTurns, encodePrompts } from "./prompts.ts";
import { Queue } from "./queue.ts";
import { watched } from "./repetition.ts";
import { receivedLine } from "./request-log.ts";
import { checkDataParallelRank, checkSampling, headerInt } from "./sampling.ts";
import { permitted } from "./script-grammar.ts";
import { choiceSeed, choiceSeeds, seedOf } from "./seeds.ts";
import type { ServerTraits } from "./server-traits.ts";
import { checkBadWords, encodeBadWords, steeringOf } from "./steering.ts";
import { StreamedAnswer } from "./stream.ts";
import type { CountedOnce, Ticket } from "./ticket.ts";
import { summary, type ToldChoice, TRUTH_HEADER, timed } from "./truth-summary.ts";

type Asking = ChatRequest | CompletionRequest;

/** A choice that waits for what the engine says of it. */
interface Choice extends ToldChoice {
  submission: Submission | null;
  named?: string | null;
}

/** What else the engine is told of all generations of a request. */
interface How {
  readonly steering: Steering | null;
  readonly script: Script | null;
  /** By choice, where a constraint or a tool call makes them. */
  readonly answers: readonly (Uint32Array | null)[] | null;
  readonly stamps: Stamps;
}

/** When a request came, and when its prompt went to the encoder. */
type Stamps = Required<Pick<Generation, "arrivalUs" | "encodedFromUs">>;

const RANK_HEADER = "x-data-parallel-rank";
/** Wins over the body. */
const PRIORITY_HEADER = "x-vllm-priority";
/** Comment in front of a stream, with `--early-head`: Bun sends the head with the first byte of the body. */
const EARLY = ": understudy\n\n";
/** Prompts times `n`: the core has no place for more, and choices that are made to be refused take gigabytes. */
const CHOICES_MOST = 65_536;
/** Hashing less than this is too short to be seen in a step's lateness. */
const LONG_PROMPT_TOKENS = 16_384;
const CLIENT_GONE = 499; // nobody reads it

export class Generator {
  readonly #options: OpenAiOptions;
  readonly #http: Http;
  readonly #server: ServerTraits;
  readonly #limits: Limits;
  readonly #arrivals = new Arrivals();
  readonly #adapters: Adapters;
  readonly #orders: Orders;
  readonly #queue: Queue;
  readonly #transfers: Transfers;
  readonly #door: Door;

  constructor(options: OpenAiOptions, http: Http, server: ServerTraits, limits: Limits, adapters: Adapters) {
    this.#options = options;
    this.#http = http;
    this.#server = server;
    this.#limits = limits;
    this.#adapters = adapters;
    this.#orders = new Orders(options);
    this.#queue = new Queue(options.config.wire ?? {}, options.backend, options.accounting);
    this.#transfers = new Transfers(options.config);
    this.#door = new Door(options);
  }

  /** Requests that are being served. */
  get open(): number {
    return this.#door.open;
  }

  /** Answers one request; it is counted once, whatever becomes of it. */
  async answer(context: Context, entry: Entry): Promise<Response> {
    const ticket = this.#door.enter();
    try {
      return await this.#answer(context, entry, ticket);
    } catch {
      const left = context.request.signal.aborted; // reading the body fails then
      ticket.settle(left ? "abort" : "error");
      if (left) this.#http.visitOf(context)?.done(500, 0);
      if (left) return new Response(null, { status: CLIENT_GONE });
      return this.#http.error(context, internalError);
    }
  }

  async #answer(context: Context, entry: Entry, ticket: CountedOnce): Promise<Response> {
    const { accounting, config, backend } = this.#options;
    const http = context.request;
    let form: Form | null = null;
    const refuse = (error: ErrorAnswer) => {
      ticket.settle(error === internalError ? "error" : "refused");
      const shown = this.#door.shown(error);
      return this.#http.error(context, form === null || shown.asItIs ? shown : form.refused(shown));
    };
    const reading = this.#door.read(context);
    const body = reading instanceof Promise ? await reading : reading;
    if ("status" in body) return refuse(body);
    const arrivalUs = backend.nowUs();
    backend.consumed(body.length);
    const given = [entry, body, http.headers.get("content-type"), this.#limits] as const;
    const read = isLarge(body) ? await readLarge(backend, ...given) : readAs(...given);
    if ("error" in read) return refuse(read.error);
    const request = this.#orders.onto(http, read.request);
    if ("form" in read) form = read.form as Form;
    if (!this.#options.alive()) return refuse(engineDead);
    const count = (request.kind === "chat" ? (request.conversations?.length ?? 1) : request.prompts.length) * request.n;
    const full = this.#queue.refuses(count) ?? (request.stream ? this.#door.refusesStream() : null);
    if (full !== null) return refuse(full);
    const ordered = this.#orders.of(http, request, body);
    if (ordered !== null && "error" in ordered) return refuse(ordered.error);

    const encodedFromUs = backend.nowUs();
    const asking = [request, this.#options, this.#limits] as const;
    const encoding = isLarge(body) ? await encodeInTurns(...asking) : encodePrompts(...asking);
    if ("error" in encoding) return refuse(encoding.error);
    const said = ordered === null || ordered.text === null ? null : this.#options.encoder.encode([ordered.text], false);
    let answerIds: Uint32Array | null = null;
    const banned = encodeBadWords(request, this.#options.encoder);
    let badWords: readonly Uint32Array[] | null = null;
    let prompts: Uint32Array[] | null = null;
    const writing = ordered === null ? this.#writing(http, request) : checkingOf(request, this.#options.encoder);
    let seeds: readonly number[] | null = null;
    let written: Written | null = null;
    if (writing !== null || encoding.pending || banned !== null || said !== null || !this.#arrivals.clear) {
      const ready = Promise.all([Promise.all(encoding.prompts), banned, said]).then(async ([all, sequences, ids]) => {
        prompts = all;
        badWords = sequences;
        answerIds = ids;
        if (writing !== null) {
          seeds = all.map((ids) => seedOf(request, ids, this.#options.nextSeed));
          written = await writing(
            seeds.flatMap((seed) => choiceSeeds(seed, request.n)),
            all,
          );
        }
        // Hashing a long prompt takes its time too.
        if (all.some((ids) => ids.length > LONG_PROMPT_TOKENS)) await backend.spare();
      });
      await this.#arrivals.pass(ready);
      backend.consumed(body.length); // what waited was no garbage yet
      if (http.signal.aborted) return this.#left(context, ticket);
      if (prompts === null) return refuse(internalError); // the encoder died
    } else {
      prompts = encoding.prompts as Uint32Array[];
    }

    // No await from here to the engine: requests reach it in their order.
    const cut: Cut[] = [];
    for (const [i, ids] of prompts.entries()) {
      const fromText = request.kind === "chat" || typeof request.prompts[i] === "string";
      const checked = checkPrompt(request, ids.length, fromText, this.#limits);
      if ("error" in checked) return refuse(checked.error);
      const front = fromText ? this.#options.encoder.front : 0;
      const kept = truncatePrompt(ids, request, this.#limits, front);
      const transferUs = this.#transfers.us(request.kvTransfer, kept.length);
      cut.push({ ids: kept, maxTokens: checked.maxTokens, transferUs });
    }
    const refuseLate = (error: ErrorAnswer) => {
      if (!request.stream) return refuse(error);
      ticket.settle("refused");
      if (form !== null)
        return brokenForm(
          this.#http,
          context,
          form,
          aboutOf(this.#asked(request, http, cut, ticket, form), cut[0]!),
          error,
          backend.after,
        );
      return brokenStream(this.#http, context, request, error);
    };
    const rank = checkDataParallelRank(http.headers.get(RANK_HEADER), config.dataParallelSize);
    for (const { ids } of cut) {
      const wrong = checkSampling(request, this.#limits, ids.length, rank) ?? checkBadWords(request, badWords);
      if (wrong !== null) return refuseLate(wrong);
    }
    const made = written as Written | null;
    if (made !== null && "error" in made) return refuseLate(made.error);
    if (cut.length * request.n > CHOICES_MOST) return refuse(engineBusy);
    const steering = steeringOf(request, badWords, this.#options.vocabulary);
    const script = ordered && this.#script(ordered, request, answerIds, prompts);
    const own = (script && this.#orders.logprobs(script)) ?? null;
    const queuedUs = backend.nowUs();
    const asked = this.#asked(request, http, cut, ticket, form, seeds, own, queuedUs);
    const how = { steering, script, answers: made?.answers ?? null, stamps: { arrivalUs, encodedFromUs } };
    const late = this.#queue.refuses(count);
    if (late !== null) return refuse(late);
    if (request.stream) {
      const answer = form === null ? new StreamedAnswer(asked) : new FormStream(asked, form);
      const sink = form?.background?.log ?? this.#http.open(context, answer, accounting);
      answer.sink = sink;
      const refused = this.#submit(asked, request, http, cut, how, answer.choices);
      if (refused === "paused") return refuseLate(request.kind === "chat" ? pausedInChatStream : paused);
      if (refused !== null) return refuse(engineBusy);
      const log = form?.background?.log;
      this.#door.answers(ticket, answer, log ? null : this.#http.visitOf(context));
      if (config.earlyHead && !log) sink.write(EARLY);
      if (form !== null) (answer as FormStream).write(form.accepted(aboutOf(asked, cut[0]!)));
      if (!log) return this.#http.stream(context, sink);
      form!.background!.signal.addEventListener("abort", () => (answer as FormStream).cancel());
      return follow(this.#http, context, log, 0);
    }
    const answer = new CollectedAnswer(asked);
    const refused = this.#submit(asked, request, http, cut, how, answer.choices);
    if (refused !== null) return refuse(refused === "paused" ? paused : engineBusy);
    form?.accepted(aboutOf(asked, cut[0]!));
    this.#door.answers(ticket, answer);
    if (form?.background) return this.#goesOn(context, answer, form.background);
    return await this.#collect(context, answer);
  }

  /** The request is answered at once, and its answer goes on by itself. */
  #goesOn(context: Context, answer: CollectedAnswer, background: Background): Response {
    background.signal.addEventListener("abort", () => answer.gone());
    void answer.answer.then((body) => typeof body === "string" || background.failed());
    return this.#http.json(context, background.queued());
  }

  async #collect(context: Context, answer: CollectedAnswer): Promise<Response> {
    const { signal } = context.request;
    if (signal.aborted) answer.gone();
    else signal.addEventListener("abort", () => answer.gone(), { once: true });
    const body = await answer.answer;
    if (body === null) return this.#left(context, answer.asked.ticket);
    if (typeof body !== "string") return this.#http.error(context, answer.asked.form?.refused(body) ?? body);
    const { truthUs } = answer.asked;
    const truth = truthUs ? summary(answer.choices, truthUs) : null;
    const load = loadHeader(context.request, this.#options.backend);
    return this.#http.json(context, body, truth === null ? load : { ...load, [TRUTH_HEADER]: truth });
  }

  /** The middleware's answer to a client that left is a 200 without a body. */
  #left(context: Context, ticket: Ticket): Response {
    ticket.settle("abort");
    this.#http.visitOf(context)?.done(200, 0);
    return new Response(null, { status: CLIENT_GONE });
  }

  #asked(
    request: Asking,
    http: Request,
    cut: readonly Cut[],
    ticket: Ticket,
    form: Form | null,
    seeds: readonly number[] | null = null,
    logprobs: Asked["logprobs"] = null,
    queuedUs = 0,
  ): Asked {
    const model = this.#adapter(request) > 0 ? request.model! : this.#options.config.servedModelNames[0]!;
    return askedOf(this.#options, this.#server, request, http, cut, ticket, form, model, seeds, logprobs, queuedUs);
  }

  /** The number of the LoRA adapter that the request names, 0 for none. */
  #adapter({ model }: Asking): number {
    return model === null ? 0 : this.#limits.loraNames.indexOf(model) + 1;
  }

  /** Tokens that are ordered one by one are held to the request's grammar. */
  #script(ordered: Ordered, request: Asking, ids: Uint32Array | null, prompts: readonly Uint32Array[]): Script {
    const script = this.#orders.script(ordered, ids, prompts, request);
    const byToken = ordered.order.kind === "script" || ordered.order.kind === "play";
    return byToken ? permitted(script, request, this.#server, this.#options.vocabulary) : script;
  }

  #writing(http: Request, request: Asking): Writing | null {
    const { encoder, config, dataset } = this.#options;
    const calls = this.#orders.calls(http, request);
    const writing = writingOf(request, this.#server, encoder, config.wire?.toolCallShare, calls);
    return dataset ? fromDataset(dataset, request, writing, this.#options, this.#limits) : writing;
  }

  /** Hands all choices of all prompts to the engine, in order; all or none. */
  #submit(
    asked: Asked,
    request: Asking,
    http: Request,
    cut: readonly Cut[],
    { steering, script, answers, stamps }: How,
    choices: readonly Choice[],
  ): "busy" | "paused" | null {
    // A header that is no number says nothing.
    const priority = Number(headerInt(http.headers.get(PRIORITY_HEADER)) ?? request.priority);
    const rank = headerInt(http.headers.get(RANK_HEADER));
    const log = this.#server.requestLog;
    const adapter = this.#adapter(request);
    const { arrivalUs, encodedFromUs } = stamps;
    const placed: Placed = {
      adapter,
      priority,
      rank: rank === null ? undefined : Number(rank),
      arrivalUs,
      encodedFromUs,
    };
    const lora = adapter === 0 ? null : { ...this.#adapters.byNumber(adapter), number: adapter };
    if (log)
      for (const [i, { maxTokens }] of cut.entries()) log(receivedLine(promptId(asked, i), request, maxTokens, lora));
    const least = leastShare(this.#options.config, request, http, asked.form);
    const together = script && this.#orders.begins(script, choices.length);
    let siblings: Choices | undefined;
    for (const [index, choice] of choices.entries()) {
      const at = Math.floor(index / request.n);
      if (request.n > 1 && index % request.n === 0) siblings = { count: request.n, left: request.n, longest: 0 };
      const seed = choiceSeed(asked.prompts[at]!.seed, index % request.n);
      const id = engineId(promptId(asked, at), index % request.n, request.n);
      const answer = answers?.[index] ?? null;
      const { backend } = this.#options;
      const generation = generationOf(
        this.#options,
        this.#server,
        request,
        cut[at]!,
        seed,
        steering,
        answer,
        id,
        placed,
        siblings,
      );
      const played = script && this.#orders.play(script, index, request, generation, choice, together);
      const watcher = played?.receiver ?? watched(request, choice);
      const heard = least > 0 ? new CacheJudge(choice, watcher, cut[at]!.ids.length, least) : watcher;
      const submitted = this.#queue.submit(
        cut[at]!.ids.length,
        asked.truthUs ? timed(choice, heard, asked.truthUs) : heard,
        (receiver) => backend.submit(played?.generation ?? generation, receiver),
      );
      if ("refused" in submitted) {
        for (const earlier of choices.slice(0, index)) earlier.submission?.cancel();
        return submitted.refused;
      }
      choice.submission = submitted;
    }
    return null;
  }
}

function aboutOf({ id, model, created, prompts }: Asked, { maxTokens }: Cut): About {
  return { id, model, created, promptTokens: prompts[0]!.tokens, maxTokens };
}
