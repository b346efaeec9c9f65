/** Types of the facts about a server that all its answers need, such as its vocabulary and parsers. */

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

/** The log that `--enable-log-requests` switches on. */
interface RequestLog {
  /** True while requests are logged. */
  readonly isOn: LiveValue<boolean>;
  write(line: string): void;
}

/** Facts about a server for its answers. Made once per server. */
export interface ServerTraits {
  /** Options about the contents and the format of answers. */
  readonly answers: AnswersConfig;
  /** The engines' clock, and the count of garbage. Without `after`, long work is done in one turn of the event loop. */
  readonly backend: Pick<Backend, "nowUs" | "after" | "consumed">;
  /** Returns false after the engine has died. Generations that it gives up end with another error then. */
  readonly alive: LiveValue<boolean>;
  readonly vocabulary: Vocabulary;
  readonly logprobs: LogprobSource;
  /** Fingerprint in answers. Null: none. */
  readonly fingerprint: string | null;
  /** Tokens per block of the prefix cache. 0: there is no cache. */
  readonly cacheBlockTokens: number;
  /** The parser of `--reasoning-parser`. Null: there is none. */
  readonly reasoning: ReasoningSetup | null;
  /** The parser of `--tool-call-parser`. Null: there is none. */
  readonly tools: {
    readonly kind: ToolParserKind;
    readonly autoEnabled: boolean;
    /** True if the text of a chat that names its tool is not parsed, because the whole text becomes the call. */
    readonly namedIsText?: boolean;
    readonly habits?: ToolHabits | undefined;
    readonly parsed?: Accounting["parsed"];
  } | null;
  /** Lines of `--enable-log-requests`. Absent: no line is written. */
  readonly requestLog?: RequestLog;
  /** The error that ends an answer which takes too long. */
  readonly timedOut: ErrorAnswer;
  /** Counts the bytes that wait for slow clients. Absent: they are not counted. */
  readonly waiting?: HeldBytes;
}
