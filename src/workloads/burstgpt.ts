/**
 * Reads BurstGPT: CSV with a header, seconds, a model, request and response tokens. By default, only rows of GPT-4 with
 * an answer count, as in vLLM 0.33 (`benchmarks/datasets`, BurstGPTDataset). The first release has two columns fewer.
 */
import type { Line } from "./lines.ts";
import { notThis, type TraceItem } from "./trace.ts";

const BURSTGPT_HEADER = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type";
const COLUMNS = ["timestamp", "model", "request tokens", "response tokens"] as const;
const LOG_TYPE = "log type";
const MODELS = ["GPT-4"];
/** A name that matches every row, in a list of models or log types. */
const ALL_NAMES = "all";

/** Rows to accept, by the exact text of their cells. Undefined: GPT-4; any log type. */
interface BurstgptChoice {
  readonly models?: readonly string[] | undefined;
  readonly logTypes?: readonly string[] | undefined;
}

/** Returns the indices of the columns in a header, with that of the log type last (-1 if there is none). Returns null if a column is missing. */
function placesOf(header: string): readonly number[] | null {
  const names = cells(header).map((name) => name.toLowerCase());
  const places = COLUMNS.map((name) => names.indexOf(name));
  return places.includes(-1) ? null : [...places, names.indexOf(LOG_TYPE)];
}

export const isBurstgptHeader = (line: string): boolean => placesOf(line) !== null;

/** `skipRow` is called with the reason for each row that is skipped. A failed request has no response tokens. */
export function* burstgpt(
  lines: Iterable<Line>,
  skipRow: (reason: string) => void,
  choice: BurstgptChoice = {},
): Generator<TraceItem> {
  let places: readonly number[] | null | undefined;
  for (const { number, text } of lines) {
    if (places === undefined) {
      places = placesOf(text ?? "");
      if (places === null) yield { line: number, expected: `a header such as ${BURSTGPT_HEADER}` };
      continue;
    }
    if (places === null) continue;
    const row = cells(text ?? "");
    const [time = "", model = "", request = "", response = "", logType = ""] = places.map((place) => row[place]);
    const wrong = wrongCell(time, request, response);
    const reason = wrong ?? whyNot(model, logType, request, response, choice);
    if (wrong !== null) yield { line: number, expected: wrong };
    else if (reason !== null) skipRow(reason);
    else {
      const arrivalUs = Math.round(Number(time) * 1e6);
      yield { line: number, arrivalUs, promptTokens: Number(request), outputTokens: Number(response), blockIds: null };
    }
  }
}

/** Returns the condition that a cell fails, or null. */
function wrongCell(time: string, request: string, response: string): string | null {
  const as = "seconds, a model, request and response tokens, as in 45,GPT-4,3,9,12,API log";
  if (!/^\d{1,12}(\.\d+)?$/.test(time)) return notThis(`${as}: "Timestamp" is a number of at least 0`, time);
  if (!isCountText(request)) return notThis(`${as}: "Request tokens" is a whole number`, request);
  return isCountText(response) ? null : notThis(`${as}: "Response tokens" is a whole number`, response);
}

/** Returns the reason why a well-formed row is skipped, or null. */
function whyNot(
  model: string,
  logType: string,
  request: string,
  response: string,
  { models = MODELS, logTypes }: BurstgptChoice,
): string | null {
  if (!isChosen(model, models)) return `Model is ${model}`;
  if (logTypes !== undefined && !isChosen(logType, logTypes)) return `Log Type is ${logType}`;
  if (Number(response) === 0) return "Response tokens is 0";
  return Number(request) === 0 ? "Request tokens is 0" : null;
}

const isChosen = (name: string, names: readonly string[]): boolean => names.includes(name) || names.includes(ALL_NAMES);

/** No cell of this file contains a comma. */
const cells = (line: string): string[] => line.split(",").map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));

const isCountText = (text: string): boolean => /^\d{1,9}(\.0)?$/.test(text);
