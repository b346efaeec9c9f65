/**
 * Which request comes next? Turns of a dataset in its order, each held until the answer before it in its conversation has
 * come and its user has thought.
 */

import { whyNone } from "../../workloads/requests.ts";
import type { SkippedRows } from "../../workloads/skipped-rows.ts";
import { type BadLine, TraceError } from "../../workloads/trace.ts";
import { messagesOf } from "./requests/body.ts";
import type { ConversationMessage, Turn } from "./requests/types.ts";

/** Turns that wait for their conversation. */
const HELD_MOST = 100_000;
/** Conversations whose history is kept, the least lately used one is forgotten. */
const CONVERSATIONS_MOST = 100_000;

interface Conversation {
  readonly messages: ConversationMessage[];
  readonly held: Turn[];
  /** A turn of it is under way, or its user thinks. */
  busy: boolean;
  failed: boolean;
  /** End of its last answer; -Infinity: there was none. */
  endUs: number;
}

export interface Next {
  readonly turn: Turn;
  readonly history: readonly ConversationMessage[];
  /** When its user has thought; -Infinity for the first turn of a conversation and for one that stands alone. */
  readonly readyUs: number;
}

export class Turns {
  /** Lines that hold no request; turns left out because one before them failed. */
  readonly bad: { count: number; first: BadLine | null } = { count: 0, first: null };
  dropped = 0;
  readonly #items: Iterator<Turn | BadLine>;
  readonly #skipBad: boolean;
  readonly #heldMost: number;
  readonly #where: string;
  readonly #passed: () => SkippedRows | null;
  readonly #conversations = new Map<string, Conversation>();
  #held = 0;
  #taken = 0;
  #ahead: Turn | null = null;

  /** At most `heldMost` turns wait for their conversation; then nothing more is read until one is answered. */
  constructor(
    items: Iterable<Turn | BadLine>,
    where: string,
    skipBad: boolean,
    heldMost = HELD_MOST,
    /** Returns the rows of the dataset that were passed over; null: it passes none over. */
    passed: () => SkippedRows | null = () => null,
  ) {
    this.#items = items[Symbol.iterator]();
    this.#where = where;
    this.#skipBad = skipBad;
    this.#heldMost = heldMost;
    this.#passed = passed;
  }

  /** The next turn that the dataset has, which `next` gives if its conversation is free. Null: there is none. */
  peek(): Turn | null {
    this.#ahead ??= this.#read();
    return this.#ahead;
  }

  /**
   * A turn that may be sent. "held": the one that was next waits for its conversation, ask again; "full": too many do,
   * an answer must come first; null: the dataset is at its end.
   */
  next(): Next | "held" | "full" | null {
    if (this.#held >= this.#heldMost) return "full";
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

  /** A turn was answered at `endUs` (`text` null: it was not). The next one of its conversation, if it has been read. */
  answered(turn: Turn, text: string | null, endUs: number): Next | null {
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

  /** Later turns that stand right behind it are read at once, so that they are there when their user has thought. */
  #hold(name: string, { held }: Conversation): void {
    while (this.#held < this.#heldMost) {
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
        throw new TraceError(`${this.#where}: ${whyNone(this.bad.count, this.#passed(), "the dataset is empty")}`);
      }
      if ("expected" in value) {
        if (!this.#skipBad) throw new TraceError(`${this.#where}:${value.line}: expected ${value.expected}`);
        this.bad.count++;
        this.bad.first ??= value;
        continue;
      }
      if (value.conversation !== null && !value.whole && hasIds(value)) {
        throw new TraceError(
          `${this.#where}: turns of a conversation cannot follow each other as token ids; take a chat backend`,
        );
      }
      this.#taken++;
      return value;
    }
  }
}

/** Reports whether a prompt is token ids. */
const hasIds = ({ prompt }: Turn): boolean => typeof prompt !== "string" && typeof prompt[0] === "number";

/** What was said before a turn, unless the turn says it all. */
const before = (turn: Turn, { messages }: Conversation): ConversationMessage[] => (turn.whole ? [] : [...messages]);
