/**
 * Records the last calls of the core that affect its decisions, with their input, in memory of fixed size. The oldest
 * are dropped first. Written per request and per step, never per token. Only read after an invariant broke
 * (`repeat.ts`, `cli/serve/crash.ts`).
 */
import { Field, NONE, SLOT_BITS, SLOTS, Status, SUBMIT_HASHED, Submit } from "../../assembly/layout.ts";
import { type CoreRequest, REQUEST_NUMBERS } from "./core-request.ts";
import type { Core } from "./wasm/core.ts";

/** Calls of `Batch`. A command has their arguments as numbers; `add` has the row of `Submit`. */
export const CALLS = ["add", "feed", "unblock", "plan", "take", "close", "flush", "pause", "resetPrefixCache"] as const;
export type Call = (typeof CALLS)[number];

export interface CoreCommand {
  readonly call: Call;
  readonly numbers: readonly number[];
  /** Prompt and stop ids of `add`, or ids of `feed`. null: too many for the journal. */
  readonly words: readonly number[] | null;
  /** Result of `add`, or NONE if it did not return. */
  readonly handle: number;
}

/** A request in the core whose `add` was dropped, as read from the core's memory. */
export interface RequestFromMemory
  extends Pick<CoreRequest, "promptTokens" | "maxTokens" | "minTokens" | "eosAt" | "seed"> {
  readonly handle: number;
  readonly outputTokens: number;
}

export interface JournalText {
  /** Number of dropped commands. 0: the commands are complete. */
  readonly forgotten: number;
  readonly remembered: readonly RequestFromMemory[];
  readonly commands: readonly CoreCommand[];
}

/** 0.5 MiB, for about 9,000 steps and 1,500 requests. */
const NUMBERS = 2 ** 16;
/** 1 MiB, for two prompts of 128 k tokens. */
const WORDS = 2 ** 18;
/** Numbers at the head of a row: length, call, number of words (-1: not kept), handle. */
const HEAD = 4;

export class Journal {
  #core: Core | null = null;
  readonly #numbers: Float64Array;
  readonly #words: Int32Array;
  /** Rows lie from `from` to `to`. Both count from the start and are taken modulo the size. */
  #from = 0;
  #to = 0;
  #wordsFrom = 0;
  #wordsTo = 0;
  #forgotten = 0;
  /** Start of the row of the last `add`. */
  #addAt = 0;

  /** Sizes must be powers of two. */
  constructor(numbers = NUMBERS, words = WORDS) {
    this.#numbers = new Float64Array(numbers);
    this.#words = new Int32Array(words);
  }

  /** Sets the core whose calls are recorded. */
  of(core: Core): void {
    this.#core = core;
  }

  /** Records a call with one argument, before it runs, so that a trapping call is the last command. */
  short(call: Call, a: number): void {
    this.#begin(call, 1, 0);
    this.#put(a);
  }

  /** Records a call with any number of arguments and lists of words. Returns the start of the row. */
  long(call: Call, numbers: readonly number[], ...lists: readonly ArrayLike<number>[]): number {
    const words = lists.reduce((sum, list) => sum + list.length, 0);
    const keeps = words <= this.#words.length;
    this.#begin(call, numbers.length, keeps ? words : -1);
    const at = this.#to - HEAD;
    for (const number of numbers) this.#put(number);
    for (const list of keeps ? lists : []) this.#keep(list);
    return at;
  }

  /** Records `add`. `row`: numbers for `submit`. Fed ids are recorded by the `feed` that follows. */
  add(row: Float64Array, prompt: ArrayLike<number>, stopTokenIds: readonly number[]): void {
    const words = prompt.length + stopTokenIds.length;
    const keeps = words <= this.#words.length;
    this.#begin("add", row.length, keeps ? words : -1);
    this.#addAt = this.#to - HEAD;
    for (let i = 0; i < row.length; i++) this.#put(row[i]!);
    if (!keeps) return;
    this.#keep(prompt);
    this.#keep(stopTokenIds);
  }

  /** Records the result of the last `add`. */
  added(handle: number): void {
    this.#numbers[this.#place(this.#addAt + 3)] = handle;
  }

  text(): JournalText {
    const commands: CoreCommand[] = [];
    let words = this.#wordsFrom;
    for (let row = this.#from; row < this.#to; row += this.#at(row)) {
      const count = this.#at(row + 2);
      const numbers = Array.from({ length: this.#at(row) - HEAD }, (_, i) => this.#at(row + HEAD + i));
      const ids = Array.from(
        { length: Math.max(0, count) },
        (_, i) => this.#words[(words + i) & (this.#words.length - 1)]!,
      );
      commands.push({
        call: CALLS[this.#at(row + 1)]!,
        numbers,
        words: count < 0 ? null : ids,
        handle: this.#at(row + 3),
      });
      words += ids.length;
    }
    return { forgotten: this.#forgotten, remembered: this.#remembered(commands), commands };
  }

  #remembered(commands: readonly CoreCommand[]): RequestFromMemory[] {
    if (this.#core === null || this.#forgotten === 0) return [];
    const known = new Set(commands.map(({ handle }) => handle));
    const { views } = this.#core;
    const requests: RequestFromMemory[] = [];
    for (let slot = 0; slot < SLOTS; slot++) {
      const of = (field: Field) => views.field(field, slot);
      const handle = (of(Field.Generation) << SLOT_BITS) | slot;
      if (of(Field.Status) === Status.Free || known.has(handle)) continue;
      requests.push({
        handle,
        promptTokens: of(Field.Prompt),
        outputTokens: of(Field.Outputs),
        maxTokens: of(Field.MaxTokens),
        minTokens: of(Field.MinTokens),
        eosAt: of(Field.EosAt),
        seed: of(Field.Seed),
      });
    }
    return requests;
  }

  #begin(call: Call, numbers: number, words: number): void {
    const length = HEAD + numbers;
    while (this.#to + length - this.#from > this.#numbers.length) this.#forget();
    while (this.#wordsTo + words - this.#wordsFrom > this.#words.length) this.#forget();
    this.#put(length);
    this.#put(CALLS.indexOf(call));
    this.#put(words);
    this.#put(NONE);
  }

  #forget(): void {
    this.#wordsFrom += Math.max(0, this.#at(this.#from + 2));
    this.#from += this.#at(this.#from);
    this.#forgotten++;
  }

  #put(value: number): void {
    this.#numbers[this.#place(this.#to++)] = value;
  }

  #keep(list: ArrayLike<number>): void {
    for (let i = 0; i < list.length; i++) this.#words[this.#wordsTo++ & (this.#words.length - 1)] = list[i]!;
  }

  #at(index: number): number {
    return this.#numbers[this.#place(index)]!;
  }

  #place(index: number): number {
    return index & (this.#numbers.length - 1);
  }
}

/** Returns the request of an `add`. If its `words` are missing, its prompt equals no other. */
export function requestOf({ numbers, words }: CoreCommand): CoreRequest {
  const fields = Object.fromEntries(REQUEST_NUMBERS.map(({ name, at }) => [name, numbers[at] ?? 0]));
  const request = fields as unknown as Pick<CoreRequest, (typeof REQUEST_NUMBERS)[number]["name"]>;
  const promptWords = numbers[Submit.PromptWords] ?? 0;
  return {
    ...request,
    flags: words === null ? request.flags | SUBMIT_HASHED : request.flags,
    prompt: words?.slice(0, promptWords) ?? [],
    stopTokenIds: words?.slice(promptWords) ?? [],
  };
}
