/** The part of a server that all its answers share: its vocabulary, its parsers, the way to its engines. Types only. */

import type { LiveValue } from "../../../base/live-value.ts";
import type { Accounting } from "../../../kernel/accounting.ts";
import type { Backend } from "../../../kernel/backend.ts";
import type { ToolHabits } from "../../../text/grammar/tool-habits.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { HeldBytes } from "../../../wire/http/sink.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { ReasoningSetup } from "../tool-calls/reasoning.ts";
import type { ToolParserKind } from "../tool-calls/tool-parsers.ts";
import type { LogprobSource } from "./logprob-source.ts";
import type { AnswersConfig } from "./openai-config.ts";

/** Writes a line about a request. Holds null while no line is written. */
export type RequestLog = LiveValue<((line: string) => void) | null>;

/** Made once per server. */
export interface ServerTraits {
  /** What answers contain, and how they are written. */
  readonly answers: AnswersConfig;
  /** The clock of the engines, and the garbage of long answers. Without `after` long work is done in one turn of the event loop. */
  readonly backend: Pick<Backend, "nowUs" | "after" | "consumed">;
  /** Returns false after the engine has died. Generations that it gives up end with another error then. */
  readonly alive: () => boolean;
  readonly vocabulary: Vocabulary;
  readonly logprobs: LogprobSource;
  /** null: answers carry no fingerprint. */
  readonly fingerprint: string | null;
  /** Tokens per block of the prefix cache. 0: there is no cache. */
  readonly cacheBlockTokens: number;
  /** The parser of `--reasoning-parser`. null: there is none. */
  readonly reasoning: ReasoningSetup | null;
  /** The parser of `--tool-call-parser`. null: there is none. */
  readonly tools: {
    readonly kind: ToolParserKind;
    readonly autoEnabled: boolean;
    /** A chat that names its tool gets the text as it is: the form makes a call of it. */
    readonly namedIsText?: boolean;
    readonly habits?: ToolHabits | undefined;
    readonly parsed?: Accounting["parsed"];
  } | null;
  /** Lines of `--enable-log-requests`. Absent: no line is written. */
  readonly requestLog?: RequestLog;
  /** The error that ends an answer which takes too long. */
  readonly timedOut: ErrorAnswer;
  /** Counts the bytes that wait for slow clients. Absent: nobody counts them. */
  readonly waiting?: HeldBytes;
}
