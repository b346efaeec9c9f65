/** How does a program say in code which requests get which answer? As a file of fixtures does: docs/fixtures.md. */

/** A text, several of which one must be it, or what must hold of it; `regex` is one of RE2's. */
export type TextMatch =
  | string
  | readonly string[]
  | { readonly equals?: string | readonly string[]; readonly contains?: string; readonly regex?: string };

/** What a request must be like: all that is said must hold. */
export interface RequestMatch {
  readonly path?: TextMatch;
  readonly model?: TextMatch;
  /** What the user said last; a completion's first prompt. */
  readonly user?: TextMatch;
  /** For each of these there is a message. */
  readonly messages?: readonly {
    readonly role?: string;
    readonly equals?: string | readonly string[];
    readonly contains?: string;
    readonly regex?: string;
  }[];
  /** By name; `{ present: false }`: it must not be there. */
  readonly headers?: Readonly<Record<string, TextMatch | { readonly present: boolean }>>;
  /** Values in the body by their path, as `"messages.0.role"`. */
  readonly body?: Readonly<Record<string, unknown>>;
  /** Which of the requests that meet all the rest, counted from 1. */
  readonly nth?: number | readonly number[];
}

/** An HTTP error in place of a generation. */
export interface AnswerError {
  /** 400 to 599. */
  readonly status: number;
  readonly message?: string;
  readonly type?: string;
  readonly param?: string;
  /** The whole body, in place of the three above: a text, or JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string | number>>;
  readonly retry_after_s?: number;
}

/** How an answer that is said by its text or its tokens goes on. */
interface Ending {
  /** Default "stop". */
  readonly finish?: "stop" | "length" | "error";
}

/** A text; or one of text, tool calls, the last message again, token ids one a step or by steps, an error. */
export type AnswerInCode =
  | string
  | (Ending & { readonly text: string })
  | {
      /** Written as the model of `toolCallParser` writes them. */
      readonly toolCalls: readonly { readonly name: string; readonly arguments?: object }[];
      /** In front of the calls. */
      readonly text?: string;
    }
  | (Ending & { readonly echo: true })
  | (Ending & { readonly tokens: readonly number[] })
  | (Ending & { readonly steps: readonly (readonly number[])[] })
  | { readonly error: number | AnswerError }
  /** A plan of faults that disturbs the answer, here of an answer as it comes: docs/fixtures.md. */
  | { readonly fault: string };

/** A request, as a predicate sees it. */
export interface AskedRequest {
  readonly path: string;
  readonly model: string | null;
  /** What the user said last; a completion's first prompt. */
  readonly user: string | null;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body: unknown;
}
