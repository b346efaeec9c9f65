/** The interface of an observer of requests, which keeps what clients sent and how it was answered. Types only. */

import type { Finish, Outcome, Submission } from "../engine/interface/types.ts";
import type { HttpRequest } from "../wire/http/request.ts";

/** The part of one choice that has been generated so far. */
export interface WitnessedChoice {
  readonly tokens: number;
  readonly finish: Finish | null;
  readonly named: string | null;
  readonly called: boolean;
  /** Null: the engine has not taken it, or only its numbers are left. */
  readonly submission: Pick<Submission, "timeline"> | null;
}

/** Called with each request and with its answer. */
export interface Witness {
  /** Before a key is looked at. */
  came(request: HttpRequest): void;
  body(request: HttpRequest, bytes: Uint8Array): void;
  /** A generation is asked for: `ended` follows. */
  asks(request: HttpRequest): void;
  /** The engine has it. */
  generates(request: HttpRequest, choices: readonly WitnessedChoice[]): void;
  /** A head leaves; of a stream or of a whole answer. */
  answered(request: HttpRequest, status: number): void;
  /** Once. */
  ended(request: HttpRequest, outcome: Outcome): void;
}
