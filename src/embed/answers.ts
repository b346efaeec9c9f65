/** Types of answers and of request conditions in code, with the meaning that they have in fixtures: docs/how-to/fixtures.md. */

/** Conditions on a text. All given ones must hold. */
export interface TextTests {
  /** The whole text, or a list of alternatives. */
  readonly equals?: string | readonly string[];
  /** A part of the text. */
  readonly contains?: string;
  /** A regular expression (RE2) that matches anywhere in the text. */
  readonly regex?: string;
}

/** A condition on a text: the text, a list of alternatives, or several conditions. */
export type TextMatch = string | readonly string[] | TextTests;

/** Conditions on a chat message. All given ones must hold. */
export interface MessageMatch extends TextTests {
  /** Role of the message. */
  readonly role?: string;
}

/** Condition on the presence of a header. */
export interface HeaderPresence {
  /** True if the header must be present, false if it must be absent. */
  readonly present: boolean;
}

/** Conditions on a request. All given ones must hold. */
export interface RequestMatch {
  /** Path without query. */
  readonly path?: TextMatch;
  /** Model of the request. */
  readonly model?: TextMatch;
  /** Last user message, or first prompt of a completion. */
  readonly user?: TextMatch;
  /** Conditions on messages. Each must hold for some message of the request. */
  readonly messages?: readonly MessageMatch[];
  /** Conditions on headers by name. */
  readonly headers?: Readonly<Record<string, TextMatch | HeaderPresence>>;
  /** Values in the JSON body by path, as `"messages.0.role"`. */
  readonly body?: Readonly<Record<string, unknown>>;
  /** Numbers of the requests that get the answer, from 1, among those that meet all other conditions. */
  readonly nth?: number | readonly number[];
}

/** An HTTP error in place of a generation. */
export interface AnswerError {
  /** HTTP status, 400 to 599. */
  readonly status: number;
  /** Message of the error body. Default: HTTP's phrase for the status. */
  readonly message?: string;
  /** The body's `type`; default: the dialect's for the status. */
  readonly type?: string;
  /** The body's `param`; default: null. */
  readonly param?: string;
  /** The whole body, in place of the three above: a text, or JSON. */
  readonly body?: unknown;
  /** Additional headers of the answer. */
  readonly headers?: Readonly<Record<string, string | number>>;
  /** Seconds for the header `Retry-After`, rounded up. */
  readonly retry_after_s?: number;
}

/** End and times of an answer that is given by its text or tokens. */
interface Ending {
  /** Finish reason. Default: "stop". */
  readonly finish?: "stop" | "length" | "error";
  /**
   * Earliest time of each token (with `steps`: each step), in milliseconds after the request. No token is sent before the
   * previous one; tokens without a time are sent with the last one that has one. Default: the engine's times.
   */
  readonly times_ms?: readonly number[];
}

/** A tool call of an answer. */
export interface AnswerCall {
  /** The tool's. */
  readonly name: string;
  /** Arguments as an object, or as a text that need not be JSON. Default: no arguments. */
  readonly arguments?: object | string;
}

/** An answer with this text. */
export interface TextAnswer extends Ending {
  /** The text. Its tokens use the engine's steps, blocks and time. */
  readonly text: string;
}

/** An answer that repeats the last user message, or the prompt of a completion. */
export interface EchoAnswer extends Ending {
  /** true */
  readonly echo: true;
}

/** An answer with these tokens. */
export interface TokensAnswer extends Ending {
  /** Token ids, one per step of the engine. */
  readonly tokens: readonly number[];
}

/** An answer with several tokens per step. */
export interface StepsAnswer extends Ending {
  /** Lists of token ids, one list per step of the engine. */
  readonly steps: readonly (readonly number[])[];
}

/** An answer that calls tools. */
export interface CallsAnswer {
  /** Tool calls. They are generated in the format of `toolCallParser`. */
  readonly toolCalls: readonly AnswerCall[];
  /** Text before the calls. */
  readonly text?: string;
}

/** An answer with the JSON that the prompt asks for: docs/how-to/structured-output.md. */
export interface PromptedAnswer {
  /** Always true. Marks an answer of this kind. */
  readonly prompted_json: true;
}

/** An error in place of a generation. */
export interface ErrorInCode {
  /** HTTP status, or details of the error. */
  readonly error: number | AnswerError;
}

/** A fault. Can be added to an answer, or stand alone to disturb the default answer. */
export interface FaultInCode {
  /** Plan of faults for the answer: docs/reference/faults.md. */
  readonly fault?: string;
}

/** An answer: a text, or an object with text, tool calls, echo, tokens, steps, or an error. */
export type AnswerInCode =
  | string
  | (FaultInCode & (TextAnswer | CallsAnswer | PromptedAnswer | EchoAnswer | TokensAnswer | StepsAnswer | ErrorInCode))
  | Required<FaultInCode>;

/** A request, as passed to a predicate. */
export interface AskedRequest {
  /** Path without query, as `/v1/chat/completions`. */
  readonly path: string;
  /** The model that it names. */
  readonly model: string | null;
  /** Text of the user's last message, or the first prompt of a completion. */
  readonly user: string | null;
  /** Headers by lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: unknown;
}
