/** What happened outside the core? Every generation request is counted exactly once by its outcome. */

import { droppedLogLines } from "../base/line-writer.ts";
import {
  FRONT_NAMES,
  numbersOf,
  type ParsedApi,
  type ParsedHow,
  TOOL_LOOKS,
  type ToolLook,
  toolLook,
} from "../engine/interface/numbers.ts";
import type { FrontSnapshot, FrontView, HttpView, Outcome } from "../engine/interface/types.ts";
import { FAULT_IDS } from "../faults/ids.ts";
import { ALL_SECONDS } from "../metrics/rows/http-counts.ts";

const NO_HTTP: HttpView = {
  routes: [],
  duration: { bounds: ALL_SECONDS, buckets: new Float64Array(ALL_SECONDS.length + 1), sum: 0, count: 0 },
};

/** Counts requests and streams. Each request to a generation route is opened and settled exactly once, however it ends. */
export interface Accounting {
  opened(): void;
  settled(outcome: Outcome): void;
  /** An event stream began, or came to its end. */
  stream(change: 1 | -1): void;
  /** So many bytes more, or fewer, wait for clients that do not keep up. */
  held(bytes: number): void;
  /** A parser of tool calls has looked at a delta or a whole answer. */
  parsed?(how: "Stream" | "Whole", called: boolean, api: "Chat" | "Responses"): void;
  /** A fault acted on an answer; by its id. */
  faulted?(id: string): void;
  /** A queue limit kept a request out. */
  rejected?(by: "requests" | "tokens"): void;
}

export class Accounts implements FrontView {
  readonly outcomes: Record<Outcome, number> = { stop: 0, length: 0, abort: 0, refused: 0, error: 0 };
  readonly toolLooks = Object.fromEntries(TOOL_LOOKS.map((look) => [look, 0])) as Record<ToolLook, number>;
  readonly faults = Object.fromEntries(FAULT_IDS.map((id) => [id, 0])) as Record<string, number>;
  requestsOpen = 0;
  streamsOpen = 0;
  bytesHeld = 0;
  rejectedByRequests = 0;
  rejectedByTokens = 0;
  readonly workerRestarts = 0;

  /** `http`: what is counted per route, where there is HTTP. */
  constructor(readonly http: HttpView = NO_HTTP) {}

  /** Counts lines of the whole process, because all of its servers share standard output. */
  get logLinesDropped(): number {
    return droppedLogLines();
  }

  opened(): void {
    this.requestsOpen++;
  }

  settled(outcome: Outcome): void {
    this.requestsOpen--;
    this.outcomes[outcome]++;
  }

  /** An event stream began, or came to its end. */
  stream(change: 1 | -1): void {
    this.streamsOpen += change;
  }

  /** So many bytes more, or fewer, wait for clients that do not keep up. */
  held(bytes: number): void {
    this.bytesHeld += bytes;
  }

  /** A queue limit kept a request out. */
  rejected(by: "requests" | "tokens"): void {
    if (by === "requests") this.rejectedByRequests++;
    else this.rejectedByTokens++;
  }

  /** A parser of tool calls has looked at a delta or a whole answer. */
  parsed(how: ParsedHow, called: boolean, api: ParsedApi): void {
    this.toolLooks[toolLook(how, called, api)]++;
  }

  /** A fault acted on an answer. */
  faulted(id: string): void {
    this.faults[id]!++;
  }

  /** A copy. */
  snapshot(): FrontSnapshot {
    const { routes, duration } = this.http;
    const { bounds, buckets, sum, count } = duration;
    const http = { routes: Array.from(routes), duration: { bounds, buckets: Array.from(buckets), sum, count } };
    return {
      ...numbersOf(this, FRONT_NAMES),
      outcomes: { ...this.outcomes },
      toolLooks: { ...this.toolLooks },
      faults: { ...this.faults },
      http,
    };
  }
}

/** Wraps the accounts so that whoever shows them is told of each move. */
export function watched(accounts: Accounts, shown: { readonly moved: () => void }) {
  return {
    opened() {
      accounts.opened();
      shown.moved();
    },
    settled(outcome: Outcome) {
      accounts.settled(outcome);
      shown.moved();
    },
    stream(change: 1 | -1) {
      accounts.stream(change);
      shown.moved();
    },
    rejected(by: "requests" | "tokens") {
      accounts.rejected(by);
      shown.moved();
    },
    parsed(how: ParsedHow, called: boolean, api: ParsedApi) {
      accounts.parsed(how, called, api);
      shown.moved();
    },
    held(bytes: number) {
      accounts.held(bytes);
      shown.moved();
    },
    faulted(id: string) {
      accounts.faulted(id);
      shown.moved();
    },
  };
}
