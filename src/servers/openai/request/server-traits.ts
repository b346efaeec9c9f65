/** What do all answers of one server share? Its vocabulary, its parsers, what it says of itself. Types only. */
import type { LiveValue } from "../../../base/live-value.ts";
import type { Accounting } from "../../../kernel/accounting.ts";
import type { ReasoningField } from "../../../text/grammar/parsers.ts";
import type { ToolHabits } from "../../../text/grammar/tool-habits.ts";
import type { Vocabulary } from "../../../text/tokens/types.ts";
import type { HeldBytes } from "../../../wire/http/sink.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { ReasoningSetup } from "../tool-calls/reasoning.ts";
import type { ToolParserKind } from "../tool-calls/tool-parsers.ts";
import type { LogprobSource } from "./logprob-source.ts";

/** The log of requests. */
export interface RequestLog {
  /** False while no line is to be written. */
  readonly isOn: LiveValue<boolean>;
  write(line: string): void;
}

/** What a server gives all its answers; made once. */
export interface ServerTraits {
  /** How an answer ends that took too long. */
  readonly timedOut: ErrorAnswer;
  /** Told of ids that wait for clients that do not keep up. */
  readonly waiting?: HeldBytes;
  readonly vocabulary: Vocabulary;
  readonly logprobs: LogprobSource;
  /** null: answers carry no fingerprint. */
  readonly fingerprint: string | null;
  readonly responseRole: string;
  /** `--return-tokens-as-token-ids`. */
  readonly tokensAsIds?: boolean;
  readonly streamInterval: number;
  readonly forceIncludeUsage: boolean;
  readonly promptTokensDetails: boolean;
  /** Tokens per block of the prefix cache; 0 without one. */
  readonly cacheBlockTokens: number;
  /** `--reasoning-parser`; null or absent: none. */
  readonly reasoning?: ReasoningSetup | null;
  /** The field of messages and deltas that holds reasoning; absent: the role's own. */
  readonly reasoningField?: ReasoningField;
  /** `--tool-call-parser`; null or absent: none. */
  readonly tools?: {
    readonly kind: ToolParserKind;
    readonly autoEnabled: boolean;
    /** A chat that names its tool gets the text as it is: the form makes a call of it. */
    readonly namedIsText?: boolean;
    readonly habits?: ToolHabits | undefined;
    readonly parsed?: Accounting["parsed"];
  } | null;
  /** Acts in the next turn of the event loop; absent: there is none. */
  readonly turn?: (act: () => void) => void;
  /** So many bytes of a long answer were made, or sent, and are garbage. */
  readonly consumed?: (bytes: number) => void;
  /** Lines of `--enable-log-requests`. Absent: no line is written. */
  readonly requestLog?: RequestLog | undefined;
  /** The engine has died: what it gave up ends with another error. */
  readonly dead?: () => boolean;
  /** `--enable-per-request-metrics`: the engine's clock. */
  readonly clockUs?: (() => number) | null;
  /** `--sse-keep-alive-interval`, and what waits so long; null: never. */
  readonly keepAlive?: { readonly us: number; readonly after: (us: number, act: () => void) => () => void } | null;
}
