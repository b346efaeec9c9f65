/** Which requests are admitted, how many are being served, and how long may each take? Between the head and the end of the answer. */

import type { Outcome } from "../../../engine/interface/types.ts";
import { type Accounting, CountedOnce, type HttpVisit } from "../../../kernel/accounting.ts";
import type { Backend } from "../../../kernel/backend.ts";
import { type Deadlines, deadlines, type Expiring } from "../../../wire/http/deadlines.ts";
import { frontLimitsOf } from "../../../wire/http/front-limits.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import { Bodies, type BodyTaker } from "./body.ts";
import type { Context } from "./http.ts";
import { Overload } from "./overload.ts";

export class Admission {
  /** Requests that are being served. */
  open = 0;
  #streams = 0;
  readonly #accounting: Accounting;
  readonly #backend: Backend;
  readonly #overload: Overload;
  readonly #bodies: Bodies;
  readonly #deadlines: Deadlines | null;
  readonly #settled = (outcome: Outcome): void => {
    this.open--;
    this.#accounting.settled(outcome);
  };

  constructor(kernel: OpenAiKernel) {
    this.#accounting = kernel.metrics.accounting;
    this.#backend = kernel.backend;
    this.#overload = new Overload(kernel);
    this.#bodies = new Bodies(kernel);
    this.#deadlines = deadlines(frontLimitsOf(kernel.config).requestTimeoutS, kernel.backend);
  }

  /** Admits one more, which is served until its ticket is settled. Many may come in one turn: the engine's steps go before them. */
  enter(): CountedOnce {
    this.#backend.catchUp?.();
    this.open++;
    this.#accounting.opened();
    return new CountedOnce(this.#settled);
  }

  /** The body of a request that has entered, or the refusal; as `Bodies.read`. */
  read<T extends BodyTaker>(
    context: Context,
    begin: () => T | null,
  ): Promise<Uint8Array | ErrorAnswer | T> | Uint8Array | ErrorAnswer | T {
    return this.#overload.refuses(this.open) ?? this.#bodies.read(context, begin);
  }

  /** The refusal of one more stream; null: it may begin. */
  refusesStream(): ErrorAnswer | null {
    return this.#overload.refusesStream(this.#streams + 1);
  }

  /** A refusal as it is sent. */
  shown(refusal: ErrorAnswer): ErrorAnswer {
    return this.#overload.shown(refusal);
  }

  /** The answer begins, and has its time from now on; `visit` where it is a stream. */
  answers(ticket: CountedOnce, answer: Expiring, visit?: HttpVisit | null): void {
    if (visit !== undefined) ticket.streams(this, visit);
    ticket.within(this.#deadlines, answer);
  }

  /** For tickets: an event stream began, or came to its end. */
  stream(change: 1 | -1): void {
    this.#streams += change;
    this.#accounting.stream(change);
  }
}
