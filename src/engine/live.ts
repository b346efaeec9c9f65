/** What does an engine remember of one generation, from submission to its end? */
import { FEED, NONE } from "../../assembly/layout.ts";
import type { CoreRequest } from "./batch.ts";
import type { Engine } from "./engine.ts";
import type { Trail } from "./observer.ts";
import { Finish, type Receiver, type Submission } from "./types.ts";

export class Live implements Submission {
  handle: number = NONE;
  ended = false;
  tokens = 0;
  fed = FEED;
  cachedTokens = 0;
  readonly endsOnly: boolean;
  /** While somebody observes the engine. */
  trail: Trail | null = null;

  constructor(
    readonly engine: Engine,
    /** Until it is in the core's queue. */
    public request: CoreRequest | null,
    readonly receiver: Receiver,
    readonly script: Uint32Array | undefined,
  ) {
    this.endsOnly = receiver.endsOnly === true && script === undefined;
  }

  cancel(): void {
    this.engine.end(this, Finish.Abort, this.tokens);
  }

  finish(reason: Finish, tokens: number): void {
    this.engine.end(this, reason, tokens);
  }

  release(): void {
    this.engine.unblock(this);
  }
}
