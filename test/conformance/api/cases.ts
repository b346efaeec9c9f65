/**
 * Reads a folder of recorded exchanges. A JSON file per case has a request, the engine's script and the answer. Instead it
 * may have `exchanges`, several in a row, or in addition a `background`, a request that is being served meanwhile. Patterns
 * of `placeholders.json` replace values that change from run to run.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { compact, type Slice, slice } from "./json-slices.ts";

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string | null>>;
  readonly body?: unknown;
  readonly body_text?: string;
  readonly body_base64?: string;
  /** `body` exactly as it is sent. */
  readonly sent?: string;
}

export interface Response {
  readonly status: number;
  readonly status_line: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly chunks?: number;
  readonly frames?: readonly string[];
  readonly frames_per_chunk?: readonly number[];
  readonly connection_closed_early?: boolean;
}

export interface Exchange {
  readonly request: Request;
  readonly script?: Readonly<Record<string, unknown>> | null;
  readonly hold_after?: number;
  readonly release_after_s?: number;
  readonly save?: Readonly<Record<string, string>>;
  readonly response: Response;
}

export interface Case extends Exchange {
  readonly name: string;
  readonly server_flags?: readonly string[];
  readonly server_env?: Readonly<Record<string, string>>;
  readonly exchanges?: readonly Exchange[];
  readonly background?: Exchange;
  readonly free_order?: boolean;
}

export type Clean = (text: string) => string;

export interface Folder {
  readonly cases: readonly Case[];
  /** Path of the model's folder. */
  readonly model: string;
  readonly clean: Clean;
}

const OURS = new URL("../", import.meta.url).pathname;

/**
 * Reads the cases from `dir`, or from its subfolder `cases`. `model` and `placeholders.json` lie next to the cases; if they
 * are missing, those of this folder are used.
 */
export function readFolder(dir: string, only: ReadonlySet<string> | null): Folder {
  const inside = existsSync(join(dir, "cases")) ? join(dir, "cases") : dir;
  const pathOf = (name: string, fallback: string) =>
    [join(dir, name), join(inside, "..", name)].find((path) => existsSync(path)) ?? join(OURS, fallback);
  const cases = readdirSync(inside)
    .filter((file) => file.endsWith(".json") && file !== "placeholders.json")
    // Sort by name, so that a case comes before its `-stream`, as recorded.
    .sort((a, b) => (a.slice(0, -5) < b.slice(0, -5) ? -1 : 1))
    .map((file) => readCase(readFileSync(join(inside, file), "utf8")))
    .filter((testCase) => testCase.name !== undefined && (only === null || only.has(testCase.name)));
  return {
    cases,
    model: pathOf("model", "model"),
    clean: cleaner(readFileSync(pathOf("placeholders.json", "recorded-streams/placeholders.json"), "utf8")),
  };
}

/** Parses one case. Its bodies keep the spelling of the text. */
export function readCase(text: string): Case {
  const found: Case = JSON.parse(text);
  const whole = slice(text);
  const sent = (exchange: Exchange, where: Slice | undefined): Exchange => {
    const body = where?.members.get("request")?.members.get("body");
    if (!body) return exchange;
    return { ...exchange, request: { ...exchange.request, sent: compact(text.slice(body.from, body.to)) } };
  };
  const { exchanges, background } = found;
  return {
    ...(sent(found, whole) as Case),
    ...(exchanges
      ? { exchanges: exchanges.map((exchange, i) => sent(exchange, whole.members.get("exchanges")!.items[i])) }
      : {}),
    ...(background ? { background: sent(background, whole.members.get("background")) } : {}),
  };
}

function cleaner(text: string): Clean {
  const list: { pattern: string; replacement: string }[] = JSON.parse(text);
  const all = list.map(({ pattern, replacement }) => [new RegExp(pattern, "g"), replacement] as const);
  return (body) => all.reduce((before, [pattern, to]) => before.replace(pattern, to), body);
}

/** Returns all exchanges of a case. If the case has a background request, it is the first. */
export function exchangesOf(testCase: Case): readonly Exchange[] {
  if (testCase.exchanges) return testCase.exchanges;
  return testCase.background ? [testCase.background, testCase] : [testCase];
}
