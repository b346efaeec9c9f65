/** What does an answer of `/v1/responses` look like? vLLM 0.33, `responses/serving.py` and `streaming_events.py` (SimpleStreamingEventProcessor). */

import type { Ids } from "../../../base/random.ts";
import { type AnswerContext, type Ending, endingOf, logprobsOf } from "../../openai/pipeline/context.ts";
import type { Background, ChoiceSoFar, Form, Piece, WholeChoice } from "../../openai/pipeline/form.ts";
import { LongTexts, SHORT_CANDIDATES } from "../../openai/pipeline/long-body.ts";
import type { ChatRequest } from "../../openai/request/request.ts";
import type { CallDelta } from "../../openai/tool-calls/output.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { Before } from "./convert.ts";
import type { ResponsesHabits } from "./habits.ts";
import {
  type BodyFacts,
  callItem,
  type Item,
  type ItemStatus,
  messageItem,
  reasoningItem,
  responseBody,
  textPart,
} from "./items.ts";
import { partsOfLogprobs, StreamedLogprobs } from "./logprobs.ts";
import { quotedJson, type RepeatedFields } from "./repeated.ts";
import type { EventLog, Status, Store } from "./store.ts";

/** An item that is being streamed. */
interface Open {
  readonly kind: "content" | "reasoning" | "call";
  readonly id: string;
  text: string;
  readonly callId: string;
  readonly name: string;
  readonly index: number;
}

/** What the form needs besides the request. */
export interface ResponseSetup {
  readonly store: Store;
  /** The conversation, to go on from. */
  readonly messages: Before["messages"];
  /** Texts are taken apart: an empty one is no item. */
  readonly parses: boolean;
  readonly abort: AbortController | null;
  readonly log: EventLog | null;
  /** Those of a server that is not vLLM's. */
  readonly habits: ResponsesHabits | undefined;
}

/** Characters that each token of a kept conversation counts as. */
const CHARACTERS_PER_TOKEN = 8;

export class ResponsesForm implements Form {
  readonly background: Background | null;
  readonly #repeated: RepeatedFields;
  readonly #request: ChatRequest;
  readonly #setup: ResponseSetup;
  #context!: AnswerContext;
  #facts!: BodyFacts;
  #sequence = 0;
  #open: Open | null = null;
  /** Log probabilities of a stream that shows them. */
  #logprobs: StreamedLogprobs | null = null;
  /** Takes the texts that are made as they are sent; null: all are made at once. */
  #long: LongTexts | null = null;
  readonly #items: Item[] = [];

  constructor(repeated: RepeatedFields, request: ChatRequest, setup: ResponseSetup) {
    this.#repeated = repeated;
    this.#request = request;
    this.#setup = setup;
    const { abort, log } = setup;
    this.background = abort && {
      signal: abort.signal,
      log,
      queued: () => this.#body("queued", [], null),
      failed: () => this.#end("failed", [], null),
    };
  }

  id(_header: string | null, newId: Ids): string {
    return this.#repeated.requestId ?? `resp_${newId(this.#setup.habits?.idBytes ?? 8)}`;
  }

  accepted(context: AnswerContext): readonly string[] {
    this.#context = context;
    this.#facts = { repeated: this.#repeated, request: this.#request, context };
    if (this.background !== null) this.#keep("queued", [], null);
    if (!this.#request.stream) return [];
    if (this.#request.logprobs && logprobsOf(context, 0) !== null)
      this.#logprobs = new StreamedLogprobs(() => logprobsOf(context, 0)!);
    const body = this.#body("in_progress", [], null);
    return [
      this.#event("response.created", `"response":${body}`),
      this.#event("response.in_progress", `"response":${body}`),
    ];
  }

  piece({ delta, ids, from }: Piece): readonly string[] {
    if (delta === null) return [];
    const { content, reasoning, calls } = delta;
    const events: string[] = [];
    if (reasoning !== undefined && reasoning !== null) {
      if (this.#open?.kind !== "reasoning") this.#start(events, "reasoning");
      this.#open!.text += reasoning;
      events.push(this.#textDelta("response.reasoning_text.delta", reasoning, ""));
    }
    if (content) {
      if (this.#open?.kind !== "content") this.#start(events, "content");
      this.#open!.text += content;
      const make = this.#logprobs?.show(ids, from, this.#items.length);
      const shown = make === undefined ? "" : this.#made(ids.length, make);
      events.push(this.#textDelta("response.output_text.delta", content, `"logprobs":[${shown}],`));
    } else this.#logprobs?.passOver(ids, from);
    for (const call of calls) this.#call(events, call);
    return events;
  }

  longPiece(piece: Piece): Iterator<string, void> | null {
    if (this.#logprobs === null || piece.delta === null) return null;
    const { reasoning, calls } = piece.delta;
    const closes = calls.length > 0 || (reasoning !== undefined && reasoning !== null);
    const tokens = piece.ids.length + (closes ? this.#logprobs.tokensOf(this.#items.length) : 0);
    return this.#inParts(tokens, () => this.piece(piece));
  }

  ended([choice]: readonly ChoiceSoFar[]): readonly string[] {
    const ending = endingOf(this.#context, choice!);
    const incomplete = ending.finish === "length";
    const events: string[] = [];
    this.#close(events, incomplete ? "incomplete" : "completed");
    const status = incomplete ? "incomplete" : "completed";
    const body = this.#end(status, this.#items, ending);
    events.push(this.#event(`response.${status}`, `"response":${body}`));
    if (this.#long === null) this.#logprobs?.drop();
    return events;
  }

  longEnd(choices: readonly ChoiceSoFar[]): Iterator<string, void> | null {
    const parts = this.#inParts(choices[0]!.tokens, () => this.ended(choices));
    return parts && this.#endedBy(parts);
  }

  *#endedBy(parts: Iterable<string>): Generator<string, void> {
    yield* parts;
    this.#logprobs!.drop();
  }

  /** What `make` gives, in parts; null: with the log probabilities of so many tokens it is short, or it is kept as a text. */
  #inParts(tokens: number, make: () => readonly string[]): Generator<string, void> | null {
    if (this.#logprobs === null || this.#stores || this.#candidates(tokens) <= SHORT_CANDIDATES) return null;
    const long = new LongTexts();
    this.#long = long;
    const events = make();
    this.#long = null;
    return long.partsOf(events.join(""));
  }

  /** Log probabilities of so many tokens, or what stands for them. */
  #made(tokens: number, make: () => Iterable<string>): string {
    return this.#long === null ? [...make()].join("") : this.#long.text(this.#candidates(tokens), make);
  }

  /** The real server breaks the stream off. */
  failed(): null {
    return null;
  }

  whole([choice]: readonly WholeChoice[], long: LongTexts): string {
    const { ids } = choice!;
    const { reasoning, content, calls } = choice!.message();
    const ending = endingOf(this.#context, choice!);
    const last: ItemStatus = ending.finish === "length" ? "incomplete" : "completed";
    const items: Item[] = [];
    if (reasoning) items.push(reasoningItem(this.#newId("rs"), reasoning, null));
    if (content || !this.#setup.parses) {
      // What is kept is asked for again, as one text.
      const all = this.#stores ? new LongTexts() : long;
      const make = () => partsOfLogprobs(choice!.logprobs()!, ids);
      const marked = choice!.logprobs() === null ? "null" : all.text(this.#candidates(ids.length), make);
      const shown = this.#stores ? String(all.in(marked)) : marked;
      items.push(messageItem(this.#newId("msg"), content ?? "", calls.length > 0 ? "completed" : last, shown));
    }
    for (const [i, { id, name, arguments: given }] of calls.entries())
      items.push(callItem(this.#newId("fc"), id, name, given, i === calls.length - 1 ? last : "completed"));
    return this.#end(ending.finish === "length" ? "incomplete" : "completed", items, ending);
  }

  refused(error: ErrorAnswer): ErrorAnswer {
    return this.#setup.habits?.refused(error) ?? error;
  }

  dropped(): void {
    this.#logprobs?.drop();
    if (this.background !== null && this.#facts !== undefined) this.#end("failed", this.#items, null);
  }

  #candidates(tokens: number): number {
    const { topLogprobs } = this.#request;
    return topLogprobs < 0 ? Number.MAX_SAFE_INTEGER : tokens * (topLogprobs + 1);
  }

  get #stores(): boolean {
    return this.#setup.store.keeps && this.#repeated.stores;
  }

  #newId(kind: "msg" | "rs" | "fc"): string {
    return `${kind}_${this.#context.newId(8)}`;
  }

  #body(status: Status, items: readonly Item[], ending: Ending | null): string {
    const make = this.#setup.habits?.body ?? responseBody;
    return make(this.#facts, status, items, ending);
  }

  /** The body at the end; a response that was cancelled stays so. */
  #end(status: Status, items: readonly Item[], ending: Ending | null): string {
    const cancelled = this.#setup.store.get(this.#context.id)?.status === "cancelled";
    if (!cancelled) this.#keep(status, [...items], ending);
    return this.#body(status, items, ending);
  }

  #keep(status: Status, items: readonly Item[], ending: Ending | null): void {
    const { store, messages, abort, log } = this.#setup;
    if (!this.#stores) return;
    const texts = items.flatMap(({ text }) => (text === null ? [] : [text]));
    const running = abort && { abort, log };
    store.set(this.#context.id, {
      status,
      body: (now) => this.#body(now, items, ending),
      before: { messages, texts },
      characters: this.#characters(items, texts),
      running,
    });
  }

  /** About what a kept response takes: the fields that it repeats, its conversation, its items, and its events. */
  #characters(items: readonly Item[], texts: readonly string[]): number {
    const { json } = this.#repeated;
    const lengths = [...Object.values(json), ...items.map((item) => item.json), ...texts].map(({ length }) => length);
    const prompt = this.#context.prompts[0]!.tokens * CHARACTERS_PER_TOKEN;
    return lengths.reduce((sum, length) => sum + length, prompt + (this.#setup.log?.characters ?? 0));
  }

  #event(type: string, members: string): string {
    return `event: ${type}\ndata: {${members},"sequence_number":${this.#sequence++},"type":"${type}"}\n\n`;
  }

  #textDelta(type: string, text: string, more: string): string {
    const members = `"content_index":0,"delta":${quotedJson(text)},"item_id":"${this.#open!.id}",${more}"output_index":${this.#items.length}`;
    return this.#event(type, members);
  }

  #start(events: string[], kind: Open["kind"], call: CallDelta | null = null): void {
    this.#close(events, "completed");
    const id = this.#newId(kind === "content" ? "msg" : kind === "reasoning" ? "rs" : "fc");
    const open = {
      kind,
      id,
      text: "",
      callId: call?.id ?? "",
      name: call?.name ?? "",
      index: call?.index ?? 0,
    };
    this.#open = open;
    const item = itemOf(open, "in_progress", "null");
    events.push(this.#event("response.output_item.added", `"item":${item.json},"output_index":${this.#items.length}`));
    if (kind === "call") return;
    const part = kind === "content" ? textPart("", "[]") : '{"text":"","type":"reasoning_text"}';
    events.push(this.#part("response.content_part.added", part));
  }

  #part(type: string, part: string): string {
    const members = `"content_index":0,"item_id":"${this.#open!.id}","output_index":${this.#items.length},"part":${part}`;
    return this.#event(type, members);
  }

  #call(events: string[], call: CallDelta): void {
    if (this.#open?.kind !== "call" || this.#open.index !== call.index) this.#start(events, "call", call);
    if (!call.arguments) return;
    this.#open!.text += call.arguments;
    const members = `"delta":${quotedJson(call.arguments)},"item_id":"${this.#open!.id}","output_index":${this.#items.length}`;
    events.push(this.#event("response.function_call_arguments.delta", members));
  }

  #close(events: string[], status: ItemStatus): void {
    const open = this.#open;
    if (open === null) return;
    const at = this.#items.length;
    const text = quotedJson(open.text);
    const logprobs = open.kind === "content" ? this.#logprobsOf(at) : "null";
    if (open.kind === "call") {
      const members = `"arguments":${text},"item_id":"${open.id}","output_index":${at}`;
      const type = "response.function_call_arguments.done";
      events.push(
        `event: ${type}\ndata: {${members},"sequence_number":${this.#sequence++},"type":"${type}","name":${quotedJson(open.name)}}\n\n`,
      );
    } else {
      const isText = open.kind === "content";
      const type = isText ? "response.output_text.done" : "response.reasoning_text.done";
      const members = `"content_index":0,"item_id":"${open.id}",${isText ? '"logprobs":[],' : ""}"output_index":${at}`;
      events.push(
        `event: ${type}\ndata: {${members},"sequence_number":${this.#sequence++},"text":${text},"type":"${type}"}\n\n`,
      );
      const part = isText ? textPart(open.text, logprobs) : `{"text":${text},"type":"reasoning_text"}`;
      events.push(this.#part("response.content_part.done", part));
    }
    const item = itemOf(open, status, logprobs);
    events.push(this.#event("response.output_item.done", `"item":${item.json},"output_index":${at}`));
    this.#items.push(this.#long === null ? item : this.#madeAnew(open, status, item));
    this.#open = null;
  }

  /** An item whose log probabilities are marked in each text that it stands in. */
  #madeAnew(open: Open, status: ItemStatus, { text }: Item): Item {
    const at = this.#items.length;
    const json = () => itemOf(open, status, this.#logprobsOf(at)).json;
    return {
      text,
      get json() {
        return json();
      },
    };
  }

  /** JSON of the list of an item's log probabilities, or what stands for it. */
  #logprobsOf(item: number): string {
    const tokens = this.#logprobs?.tokensOf(item) ?? 0;
    return tokens === 0 ? "null" : this.#made(tokens, () => this.#logprobs!.listOf(item));
  }
}

function itemOf({ kind, id, text, callId, name }: Open, status: ItemStatus, logprobs: string): Item {
  if (kind === "call") return callItem(id, callId, name, text, status);
  if (kind === "content") return messageItem(id, text, status, logprobs);
  return reasoningItem(id, status === "in_progress" ? null : text, status);
}
