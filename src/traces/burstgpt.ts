/**
 * What does a line of BurstGPT say? CSV with a header: seconds, model, request and response tokens. Rows of GPT-4 with an
 * answer count, as in vLLM 0.33 (`benchmarks/datasets`, BurstGPTDataset); the first release has two columns fewer.
 */
import type { Line } from "./lines.ts";
import type { TraceItem } from "./trace.ts";

export const BURSTGPT_HEADER = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type";
const COLUMNS = ["timestamp", "model", "request tokens", "response tokens"] as const;
const MODEL = "GPT-4";

/** What a header says of the columns: their places, or null where one is missing. */
function placesOf(header: string): readonly number[] | null {
  const names = cells(header).map((name) => name.toLowerCase());
  const places = COLUMNS.map((name) => names.indexOf(name));
  return places.includes(-1) ? null : places;
}

export const isBurstgptHeader = (line: string): boolean => placesOf(line) !== null;

/** `passOver` is told of each row of another model, and of each that failed: it has no response tokens. */
export function* burstgpt(lines: Iterable<Line>, passOver: () => void): Generator<TraceItem> {
  let places: readonly number[] | null | undefined;
  for (const { number, text } of lines) {
    if (places === undefined) {
      places = placesOf(text ?? "");
      if (places === null) yield { line: number, expected: `a header such as ${BURSTGPT_HEADER}` };
      continue;
    }
    if (places === null) continue;
    const row = cells(text ?? "");
    const [time = "", model, request = "", response = ""] = places.map((place) => row[place]);
    const [prompt, output] = [countOf(request), countOf(response)];
    if (!/^\d{1,12}(\.\d+)?$/.test(time) || prompt === undefined || output === undefined) {
      yield { line: number, expected: "seconds, a model, request and response tokens, as in 45,GPT-4,3,9,12,API log" };
    } else if (model !== MODEL || output === 0 || prompt === 0) passOver();
    else {
      const arrivalUs = Math.round(Number(time) * 1e6);
      yield { line: number, arrivalUs, promptTokens: prompt, outputTokens: output, blockIds: null };
    }
  }
}

/** No cell of this file holds a comma. */
const cells = (line: string): string[] => line.split(",").map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));

function countOf(text: string): number | undefined {
  return /^\d{1,9}(\.0)?$/.test(text) ? Number(text) : undefined;
}
