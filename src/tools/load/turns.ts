/**
 * Selects the next request: turns of a dataset in its order. A turn of a conversation waits for the answer before it and for
 * the think time.
 */

import { whyNone } from "../../workloads/requests.ts";
import type { SkippedRows } from "../../workloads/skipped-rows.ts";
import { type BadLine, TraceError } from "../../workloads/trace.ts";
import { messagesOf } from "./requests/body.ts";
import type { ConversationMessage, Turn } from "./requests/types.ts";

/** Maximum number of turns that wait for their conversation. */
const HELD_MOST = 100_000;
/** Maximum number of conversations whose history is kept. The least recently used is forgotten. */
const CONVERSATIONS_MOST = 100_000;

interface Conversation {
  readonly messages: ConversationMessage[];
  readonly held: Turn[];
  /** True while a turn of the conversation is in progress, or while its user thinks. */
  busy: boolean;
  failed: boolean;
  /** End time of its last answer. -Infinity before the first answer. */
  endUs: number;
}

export interface NextTurn {
  readonly turn: Turn;
  readonly history: readonly ConversationMessage[];
  /** Time at which the turn may be sent. -Infinity for single requests and first turns. */
  readonly readyUs: number;
}

export class Turns {
  /**
   * Number of lines without a request, with the first of them. `dropped`: turns that were left out because an earlier one
   * failed.
   */
  readonly bad: { count: number; first: BadLine | null } = { count: 0, first: null };
  dropped = 0;
  readonly #items: Iterator<Turn | BadLine>;
  readonly #conversations = new Map<string, Conversation>();
  #held = 0;
  #taken = 0;
  #ahead: Turn | null = null;

  /** At most `heldMost` turns wait for their conversation. Then nothing is read until an answer comes. */
  constructor(
    items: Iterable<Turn | BadLine>,
    private readonly where: string,
    private readonly skipBad: boolean,
    private readonly heldMost = HELD_MOST,
    /** Returns the skipped rows of the dataset, or null if it skips none. */
    private readonly passed: () => SkippedRows | null = () => null,
  ) {
    this.#items = items[Symbol.iterator]();
  }

  /** Returns the next turn of the dataset without taking it. Null if the dataset has ended. */
  peek(): Turn | null {
    this.#ahead ??= this.#read();
    return this.#ahead;
  }

  /**
   * Takes the next turn. "held": the turn has to wait for its conversation, so ask again. "full": too many turns wait, so an
   * answer must come first. Null: the dataset has ended.
   */
  next(): NextTurn | "held" | "full" | null {
    if (this.#held >= this.heldMost) return "full";
    const turn = this.peek();
    if (turn === null) return null;
    this.#ahead = null;
    if (turn.conversation === null) return { turn, history: [], readyUs: Number.NEGATIVE_INFINITY };
    const conversation = this.#of(turn.conversation);
    if (conversation.failed) {
      this.dropped++;
      return "held";
    }
    if (conversation.busy) {
      conversation.held.push(turn);
      this.#held++;
      return "held";
    }
    conversation.busy = true;
    this.#hold(turn.conversation, conversation);
    return { turn, history: before(turn, conversation), readyUs: conversation.endUs + turn.thinkUs };
  }

  /** Records an answer. `text` is null if the request failed. Returns the next turn of the conversation, if it has been read. */
  answered(turn: Turn, text: string | null, endUs: number): NextTurn | null {
    const conversation = turn.conversation === null ? undefined : this.#conversations.get(turn.conversation);
    if (conversation === undefined) return null;
    if (text === null) {
      this.dropped += conversation.held.length;
      this.#held -= conversation.held.length;
      conversation.held.length = 0;
      conversation.messages.length = 0;
      conversation.failed = true;
      return null;
    }
    if (turn.whole) conversation.messages.length = 0;
    // Token ids come only in turns that are whole prompts, which no other turn follows.
    if (!hasIds(turn)) conversation.messages.push(...messagesOf(turn), { role: "assistant", content: text });
    conversation.endUs = endUs;
    const next = conversation.held.shift();
    conversation.busy = next !== undefined;
    if (next === undefined) return null;
    this.#held--;
    return { turn: next, history: before(next, conversation), readyUs: endUs + next.thinkUs };
  }

  /** Reads later turns of the conversation ahead, if they follow directly, so that they are ready after the think time. */
  #hold(name: string, { held }: Conversation): void {
    while (this.#held < this.heldMost) {
      const ahead = this.peek();
      if (ahead?.conversation !== name) return;
      held.push(ahead);
      this.#held++;
      this.#ahead = null;
    }
  }

  #of(name: string): Conversation {
    const known = this.#conversations.get(name);
    const conversation = known ?? {
      messages: [],
      held: [],
      busy: false,
      failed: false,
      endUs: Number.NEGATIVE_INFINITY,
    };
    this.#conversations.delete(name);
    this.#conversations.set(name, conversation);
    if (this.#conversations.size > CONVERSATIONS_MOST) {
      for (const [old, { busy }] of this.#conversations) {
        if (busy) continue;
        this.#conversations.delete(old);
        break;
      }
    }
    return conversation;
  }

  #read(): Turn | null {
    for (;;) {
      const { value, done } = this.#items.next();
      if (done) {
        if (this.#taken > 0) return null;
        throw new TraceError(`${this.where}: ${whyNone(this.bad.count, this.passed(), "the dataset is empty")}`);
      }
      if ("expected" in value) {
        if (!this.skipBad) throw new TraceError(`${this.where}:${value.line}: expected ${value.expected}`);
        this.bad.count++;
        this.bad.first ??= value;
        continue;
      }
      if (value.conversation !== null && !value.whole && hasIds(value)) {
        throw new TraceError(
          `${this.where}: turns of a conversation cannot follow each other as token ids; use a chat backend`,
        );
      }
      this.#taken++;
      return value;
    }
  }
}

/** Reports whether a prompt consists of token ids. */
const hasIds = ({ prompt }: Turn): boolean => typeof prompt !== "string" && typeof prompt[0] === "number";

/** Returns the messages before a turn. Empty if the turn is the whole conversation. */
const before = (turn: Turn, { messages }: Conversation): ConversationMessage[] => (turn.whole ? [] : [...messages]);
