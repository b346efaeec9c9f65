/** What do the OpenAI routes need of the server? Everything is handed in; nothing here knows the engine or a clock. */

import { STATUS_CODES } from "node:http";
import type { LiveValue } from "../../../base/live-value.ts";
import type { Ids } from "../../../base/random.ts";
import type { Accounting, HttpVisit } from "../../../kernel/accounting.ts";
import type { Backend } from "../../../kernel/backend.ts";
import type { LiveConfig } from "../../../kernel/live-settings.ts";
import type { Witness } from "../../../kernel/witness.ts";
import type { AnswerTables, NaturalLength } from "../../../text/answers/answers.ts";
import type { AnswerDataset } from "../../../text/canned/dataset/dataset.ts";
import type { FaultRules } from "../../../text/canned/fixtures/fault-rules.ts";
import type { Fixtures } from "../../../text/canned/fixtures/fixtures.ts";
import type { AnswerRules } from "../../../text/canned/fixtures/match.ts";
import type { Plays } from "../../../text/canned/script.ts";
import type { RenderChat } from "../../../text/tokens/chat-template.ts";
import type { Encoder, ModelTemplate, Vocabulary } from "../../../text/tokens/types.ts";
import type { HttpRequest } from "../../../wire/http/request.ts";
import type { FaultWitness } from "../../../wire/http/sink.ts";
import type { LogprobSource } from "../request/logprob-source.ts";
import type { OpenAiServerConfig } from "../request/openai-config.ts";
import type { RequestLog } from "../request/server-traits.ts";

/** Counts every HTTP request as vLLM's middleware does. */
export interface HttpAccounting {
  /** A request came in. */
  came(request: HttpRequest, path: string): void;
  /** The request's visit, given once; undefined: it has been taken, or is not counted. */
  take(request: HttpRequest): HttpVisit | undefined;
}

/** One line of the access log; `path` with its query, `client` as `127.0.0.1:54321`, "" if unknown. */
export interface Access {
  readonly client: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** Version of HTTP: "1.1". */
  readonly version: string;
}

export interface OpenAiOptions {
  /** The configuration of the start. */
  readonly config: OpenAiServerConfig;
  /** Values of the configuration that change while the server runs. */
  readonly live: LiveConfig;
  readonly vocabulary: Vocabulary;
  readonly encoder: Encoder;
  readonly backend: Backend;
  readonly accounting: Accounting;
  /** Absent: HTTP requests are not counted. */
  readonly httpAccounting?: HttpAccounting;
  readonly renderChat: RenderChat;
  /** What that is made of, so that another thread can; null: the built-in one. Absent: no other thread can. */
  readonly template?: ModelTemplate | null;
  /** Ids that end an answer besides the end of sequence, unless it is to be ignored. */
  readonly endIds?: readonly number[];
  /** Tokens are spelled with a mark for each blank, and bytes as `<0xNN>`. */
  readonly blanks?: boolean;
  /** What `/tokenizer_info` says, where it is served. */
  readonly tokenizerInfo?: Readonly<Record<string, unknown>>;
  /** The model's sampling defaults, under the names of `generation_config.json`. */
  readonly generation?: Readonly<Record<string, unknown>>;
  /** Told the names of all LoRA adapters, by number, when a request has loaded another. */
  readonly adaptersLoaded?: (names: readonly string[]) => void;
  /** The scripts of `--script`. */
  readonly plays?: Plays;
  /** What is in the folder of `--fixtures`. */
  readonly fixtures?: Pick<Fixtures, "answerTo">;
  /** The rules of `--fault-plan`. */
  readonly faultRules?: FaultRules;
  /** Answers of the program around the server, before every other order. A rejection is a 500. */
  readonly rules?: AnswerRules;
  readonly witness?: Witness;
  /** The rows of `--dataset`. */
  readonly dataset?: Pick<AnswerDataset, "answerTo">;
  /** Hears why a JSON Schema in a prompt gets no JSON; absent: nobody does. */
  readonly schemaNotice?: (why: string) => void;
  /** Writes a line of the access log. Holds null while no line is written. */
  readonly accessLog: LiveValue<((access: Access) => void) | null>;
  /** Lines of `--enable-log-requests`. Absent: no line is written. */
  readonly requestLog?: RequestLog;
  /** Who is told of an answer that a plan of faults disturbs; by the key of its draws. */
  readonly faultWitness?: (key: string) => FaultWitness;
  readonly epochSeconds: () => number;
  /** Makes the digits of every id that an answer carries. */
  readonly newId: Ids;
  /** At which token an answer of this seed ends by itself. */
  readonly naturalLength: NaturalLength;
  /** Seeds for requests that bring none. */
  readonly nextSeed: () => number;
  /** false: `/health` answers 503. */
  readonly alive: LiveValue<boolean>;
  /** Paths of other rooms on the same server and their methods, so that other methods there get 405: `/metrics`. */
  readonly otherRoutes?: Readonly<Record<string, readonly string[]>>;
  readonly logprobs?: LogprobSource;
  /** What the engine draws answers from; absent: tokens are neither forced nor forbidden. */
  readonly answers?: AnswerTables;
  /** There is no CORS middleware: answers do not vary by origin. Absent: vLLM's. */
  readonly withoutCors?: boolean;
  /** null: answers carry no fingerprint; absent: made from the configuration. */
  readonly fingerprint?: string | null;
  readonly responseRole?: string;
  /** `/load` counts what is being served; without it 0. */
  readonly trackServerLoad?: boolean;
}

/** The line as uvicorn writes it. */
export function accessLine({ client, method, path, status, version }: Access): string {
  return `INFO:     ${client} - "${method} ${path} HTTP/${version}" ${status} ${PHRASES[status] ?? STATUS_CODES[status] ?? ""}`;
}

/** Phrases of Python's `http.HTTPStatus` that are not Node's. */
const PHRASES: Readonly<Record<number, string>> = {
  413: "Request Entity Too Large",
  416: "Requested Range Not Satisfiable",
};
