/** How does a program say in code which requests get which answer? As a file of fixtures does: docs/fixtures.md. */

/** What must hold of a text: all that is said. */
export interface TextTests {
  /** All of the text: this, or one of these. */
  readonly equals?: string | readonly string[];
  /** This stands in it. */
  readonly contains?: string;
  /** An expression of RE2, found anywhere in it. */
  readonly regex?: string;
}

/** A text, several of which one must be it, or what must hold of it. */
export type TextMatch = string | readonly string[] | TextTests;

/** A message of a chat: all that is said must hold. */
export interface MessageMatch extends TextTests {
  /** Who speaks. */
  readonly role?: string;
}

/** Whether a header must be there. */
export interface HeaderPresence {
  /** false: it must not. */
  readonly present: boolean;
}

/** What a request must be like: all that is said must hold. */
export interface RequestMatch {
  /** The path, without its query. */
  readonly path?: TextMatch;
  /** The model that it names. */
  readonly model?: TextMatch;
  /** What the user said last; a completion's first prompt. */
  readonly user?: TextMatch;
  /** For each of these there is a message. */
  readonly messages?: readonly MessageMatch[];
  /** By name; `{ present: false }`: it must not be there. */
  readonly headers?: Readonly<Record<string, TextMatch | HeaderPresence>>;
  /** Values in the body by their path, as `"messages.0.role"`. */
  readonly body?: Readonly<Record<string, unknown>>;
  /** Which of the requests that meet all the rest, counted from 1. */
  readonly nth?: number | readonly number[];
}

/** An HTTP error in place of a generation. */
export interface AnswerError {
  /** 400 to 599. */
  readonly status: number;
  /** Said by an error body in the dialect's form; default: HTTP's phrase for the status. */
  readonly message?: string;
  /** The body's `type`; default: the dialect's for the status. */
  readonly type?: string;
  /** The body's `param`; default: null. */
  readonly param?: string;
  /** The whole body, in place of the three above: a text, or JSON. */
  readonly body?: unknown;
  /** More headers of the answer. */
  readonly headers?: Readonly<Record<string, string | number>>;
  /** The header `Retry-After`, seconds, rounded up. */
  readonly retry_after_s?: number;
}

/** How an answer that is said by its text or its tokens goes on. */
interface Ending {
  /** Default "stop". */
  readonly finish?: "stop" | "length" | "error";
  /**
   * When each token (of `steps`: each step) leaves at the earliest, in milliseconds after the request came; none before the
   * one in front of it, and what comes behind the last one leaves with it. Default: as the engine gives them.
   */
  readonly times_ms?: readonly number[];
}

/** A tool call of an answer. */
export interface AnswerCall {
  /** The tool's. */
  readonly name: string;
  /** A text is written as it stands, JSON or not. Default: none. */
  readonly arguments?: object | string;
}

/** Says this text. */
export interface TextAnswer extends Ending {
  /** Tokens of it take the engine's steps, blocks and time. */
  readonly text: string;
}

/** Says what the user said last; a completion's prompt. */
export interface EchoAnswer extends Ending {
  /** true */
  readonly echo: true;
}

/** Says these tokens. */
export interface TokensAnswer extends Ending {
  /** Ids, one a step of the engine. */
  readonly tokens: readonly number[];
}

/** Says these tokens, several in a step. */
export interface StepsAnswer extends Ending {
  /** Ids, a list per step of the engine. */
  readonly steps: readonly (readonly number[])[];
}

/** Calls tools. */
export interface CallsAnswer {
  /** Written as the model of `toolCallParser` writes them. */
  readonly toolCalls: readonly AnswerCall[];
  /** In front of the calls. */
  readonly text?: string;
}

/** JSON, as the prompt asks for it: docs/structured-output.md. */
export interface PromptedAnswer {
  /** true */
  readonly prompted_json: true;
}

/** Answers without a generation. */
export interface ErrorInCode {
  /** The status alone, or more of it. */
  readonly error: number | AnswerError;
}

/** Beside an answer, or alone for an answer as it comes. */
export interface Disturbed {
  /** A plan of faults that disturbs it: docs/faults.md. */
  readonly fault?: string;
}

/** A text; or one of text, tool calls, the last message again, token ids one a step or by steps, an error. */
export type AnswerInCode =
  | string
  | (Disturbed & (TextAnswer | CallsAnswer | PromptedAnswer | EchoAnswer | TokensAnswer | StepsAnswer | ErrorInCode))
  | Required<Disturbed>;

/** A request, as a predicate sees it. */
export interface AskedRequest {
  /** Without its query: `/v1/chat/completions`. */
  readonly path: string;
  /** The model that it names. */
  readonly model: string | null;
  /** What the user said last; a completion's first prompt. */
  readonly user: string | null;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: unknown;
}
