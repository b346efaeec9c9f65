/**
 * Writes answers of OpenAI's Responses API. Source: vLLM 0.33, `responses/serving.py` and `streaming_events.py`
 * (SimpleStreamingEventProcessor).
 */

import type { Ids } from "../../../base/random.ts";
import { quotedJson } from "../../../text/tokens/vocabulary.ts";
import { type AnswerContext, type Ending, endingOf, logprobsOf } from "../../openai/pipeline/context.ts";
import type { Background, ChoiceSoFar, Form, Piece, WholeChoice } from "../../openai/pipeline/form.ts";
import { LongTexts, SHORT_CANDIDATES } from "../../openai/pipeline/long-body.ts";
import type { ChatRequest } from "../../openai/request/request.ts";
import type { CallDelta } from "../../openai/tool-calls/output.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { PreviousResponse } from "./convert.ts";
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
import type { RepeatedFields } from "./repeated.ts";
import type { EventLog, Status, Store } from "./store.ts";

/** The item of a stream that has started and not ended. */
interface OpenItem {
  readonly kind: "content" | "reasoning" | "call";
  readonly id: string;
  /** The text or the arguments so far. */
  text: string;
  /** The next three are those of a tool call, else "" and 0. */
  readonly callId: string;
  readonly name: string;
  readonly index: number;
}

/** Values that the form needs in addition to the request. */
interface ResponseSetup {
  readonly store: Store;
  /** Messages of the request and of earlier responses. They are stored, because a later response may continue from this one. */
  readonly messages: PreviousResponse["messages"];
  /** True if a parser splits the text of answers, so that an answer can lack a message. */
  readonly parses: boolean;
  /** Ends a background response. Null for other responses. */
  readonly abort: AbortController | null;
  /** Takes the events of a background response that is streamed. Null for other responses. */
  readonly log: EventLog | null;
  /** Differences of a server other than vLLM. */
  readonly habits: ResponsesHabits | undefined;
}

/** UTF-16 units that a token of a stored conversation counts as. */
const CHARACTERS_PER_TOKEN = 8;

/** Writes one response, as a stream of events or as one body. */
export class ResponsesForm implements Form {
  readonly background: Background | null;
  #context!: AnswerContext;
  #facts!: BodyFacts;
  /** Number of the next event. */
  #sequence = 0;
  #open: OpenItem | null = null;
  /** Log probabilities of a stream. Null if it shows none. */
  #logprobs: StreamedLogprobs | null = null;
  /** Takes the texts that are made while they are sent. Null if all texts are made at once. */
  #long: LongTexts | null = null;
  /** Items that have ended. */
  readonly #items: Item[] = [];

  constructor(
    private readonly repeated: RepeatedFields,
    private readonly request: ChatRequest,
    private readonly setup: ResponseSetup,
  ) {
    const { abort, log } = setup;
    this.background = abort && {
      signal: abort.signal,
      log,
      queued: () => this.#body("queued", [], null),
      failed: () => this.#end("failed", [], null),
    };
  }

  id(_header: string | null, newId: Ids): string {
    return this.repeated.requestId ?? `resp_${newId(this.setup.habits?.idBytes ?? 8)}`;
  }

  accepted(context: AnswerContext): readonly string[] {
    this.#context = context;
    this.#facts = { repeated: this.repeated, request: this.request, context };
    if (this.background !== null) this.#keep("queued", [], null);
    if (!this.request.stream) return [];
    if (this.request.logprobs && logprobsOf(context, 0) !== null)
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
      const shown = make === undefined ? "" : this.#textOrMark(ids.length, make);
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
    const status = ending.finish === "length" ? "incomplete" : "completed";
    const events: string[] = [];
    this.#close(events, status);
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

  /**
   * Returns the events that `make` makes, as texts in parts. Returns null if the events are short, or if the response is
   * stored, because a stored response needs whole texts.
   */
  #inParts(tokens: number, make: () => readonly string[]): Generator<string, void> | null {
    if (this.#logprobs === null || this.#stores || this.#candidates(tokens) <= SHORT_CANDIDATES) return null;
    const long = new LongTexts();
    this.#long = long;
    const events = make();
    this.#long = null;
    return long.partsOf(events.join(""));
  }

  /** Returns the text of `make`, or the mark that represents it if it is collected. `tokens`: number of tokens that it shows. */
  #textOrMark(tokens: number, make: () => Iterable<string>): string {
    return this.#long === null ? [...make()].join("") : this.#long.text(this.#candidates(tokens), make);
  }

  /** Ends the stream without an event, like vLLM. */
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
    if (content || !this.setup.parses) {
      // A stored response needs the whole text, because it can be requested again.
      const texts = this.#stores ? new LongTexts() : long;
      const make = () => partsOfLogprobs(choice!.logprobs()!, ids);
      const marked = choice!.logprobs() === null ? "null" : texts.text(this.#candidates(ids.length), make);
      const shown = this.#stores ? String(texts.in(marked)) : marked;
      items.push(messageItem(this.#newId("msg"), content ?? "", calls.length > 0 ? "completed" : last, shown));
    }
    for (const [i, { id, name, arguments: args }] of calls.entries())
      items.push(callItem(this.#newId("fc"), id, name, args, i === calls.length - 1 ? last : "completed"));
    return this.#end(last, items, ending);
  }

  refused(error: ErrorAnswer): ErrorAnswer {
    return this.setup.habits?.refused(error) ?? error;
  }

  dropped(): void {
    this.#logprobs?.drop();
    if (this.background !== null && this.#facts !== undefined) this.#end("failed", this.#items, null);
  }

  #candidates(tokens: number): number {
    const { topLogprobs } = this.request;
    return topLogprobs < 0 ? Number.MAX_SAFE_INTEGER : tokens * (topLogprobs + 1);
  }

  get #stores(): boolean {
    return this.setup.store.keeps && this.repeated.stores;
  }

  #newId(kind: "msg" | "rs" | "fc"): string {
    return `${kind}_${this.#context.newId(8)}`;
  }

  #body(status: Status, items: readonly Item[], ending: Ending | null): string {
    const make = this.setup.habits?.body ?? responseBody;
    return make(this.#facts, status, items, ending);
  }

  /** Returns the last body, and stores the response unless it was cancelled. */
  #end(status: Status, items: readonly Item[], ending: Ending | null): string {
    const cancelled = this.setup.store.get(this.#context.id)?.status === "cancelled";
    if (!cancelled) this.#keep(status, [...items], ending);
    return this.#body(status, items, ending);
  }

  #keep(status: Status, items: readonly Item[], ending: Ending | null): void {
    const { store, messages, abort, log } = this.setup;
    if (!this.#stores) return;
    const texts = items.flatMap(({ text }) => (text === null ? [] : [text]));
    const running = abort && { abort, log };
    store.set(this.#context.id, {
      status,
      body: (now) => this.#body(now, items, ending),
      previous: { messages, texts },
      characters: this.#characters(items, texts),
      running,
    });
  }

  /** Estimates the size of a stored response: its repeated fields, conversation, items and events. */
  #characters(items: readonly Item[], texts: readonly string[]): number {
    const { json } = this.repeated;
    const lengths = [...Object.values(json), ...items.map((item) => item.json), ...texts].map(({ length }) => length);
    const prompt = this.#context.prompts[0]!.tokens * CHARACTERS_PER_TOKEN;
    return lengths.reduce((sum, length) => sum + length, prompt + (this.setup.log?.characters ?? 0));
  }

  /** Writes an event of a stream. Its JSON has `members`, the sequence number, `text`, the type and `last`, in this order. */
  #event(type: string, members: string, text = "", last = ""): string {
    return `event: ${type}\ndata: {${members},"sequence_number":${this.#sequence++}${text},"type":"${type}"${last}}\n\n`;
  }

  #textDelta(type: string, text: string, more: string): string {
    const members = `"content_index":0,"delta":${quotedJson(text)},"item_id":"${this.#open!.id}",${more}"output_index":${this.#items.length}`;
    return this.#event(type, members);
  }

  #start(events: string[], kind: OpenItem["kind"], call: CallDelta | null = null): void {
    this.#close(events, "completed");
    const id = this.#newId(kind === "content" ? "msg" : kind === "reasoning" ? "rs" : "fc");
    const open = { kind, id, text: "", callId: call?.id ?? "", name: call?.name ?? "", index: call?.index ?? 0 };
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
      const name = `,"name":${quotedJson(open.name)}`;
      events.push(this.#event("response.function_call_arguments.done", members, "", name));
    } else {
      const isText = open.kind === "content";
      const type = isText ? "response.output_text.done" : "response.reasoning_text.done";
      const members = `"content_index":0,"item_id":"${open.id}",${isText ? '"logprobs":[],' : ""}"output_index":${at}`;
      events.push(this.#event(type, members, `,"text":${text}`));
      const part = isText ? textPart(open.text, logprobs) : `{"text":${text},"type":"reasoning_text"}`;
      events.push(this.#part("response.content_part.done", part));
    }
    const item = itemOf(open, status, logprobs);
    events.push(this.#event("response.output_item.done", `"item":${item.json},"output_index":${at}`));
    this.#items.push(this.#long === null ? item : this.#itemWithMarks(open, status, item));
    this.#open = null;
  }

  /** Returns an item whose JSON has a new mark for its log probabilities at each read. */
  #itemWithMarks(open: OpenItem, status: ItemStatus, { text }: Item): Item {
    const at = this.#items.length;
    const json = () => itemOf(open, status, this.#logprobsOf(at)).json;
    return {
      text,
      get json() {
        return json();
      },
    };
  }

  /** Returns the JSON of the list of an item's log probabilities, or the mark that represents it. */
  #logprobsOf(item: number): string {
    const tokens = this.#logprobs?.tokensOf(item) ?? 0;
    return tokens === 0 ? "null" : this.#textOrMark(tokens, () => this.#logprobs!.listOf(item));
  }
}

function itemOf({ kind, id, text, callId, name }: OpenItem, status: ItemStatus, logprobs: string): Item {
  if (kind === "call") return callItem(id, callId, name, text, status);
  if (kind === "content") return messageItem(id, text, status, logprobs);
  return reasoningItem(id, status === "in_progress" ? null : text, status);
}
