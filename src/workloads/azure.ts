/** Reads Azure LLM inference traces: CSV with time of day, prompt tokens, generated tokens. */
import type { Line } from "./lines.ts";
import { notThis, type TraceItem } from "./trace.ts";

export const AZURE_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens";

const ROW = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,9})?(?:Z|\+00:00)?,(\d{1,15})(?:\.0)?,(\d{1,15})(?:\.0)?$/;

/** Reads the rows of an Azure trace. The trace does not say what prompts contain, so no two prompts share a block. */
export function* azure(lines: Iterable<Line>): Generator<TraceItem> {
  let first = true;
  for (const { number, text } of lines) {
    const isHeader = first && text?.replaceAll('"', "").toLowerCase() === AZURE_HEADER.toLowerCase();
    if (!isHeader)
      yield first ? { line: number, expected: `the header ${AZURE_HEADER}` } : readLine(number, text ?? "");
    first = false;
  }
}

function readLine(line: number, text: string): TraceItem {
  const [, day, time, fraction = "", prompt, output] = ROW.exec(text) ?? [];
  const seconds = Date.parse(`${day}T${time}Z`) / 1000;
  if (Number.isNaN(seconds)) {
    const condition = "a time, prompt tokens and output tokens, as in 2023-11-16 18:17:03.9799600,4808,10";
    return { line, expected: notThis(condition, text) };
  }
  const [promptTokens, outputTokens] = [Number(prompt), Number(output)];
  if (promptTokens < 1 || outputTokens < 1)
    return { line, expected: notThis("token counts of at least 1", promptTokens < 1 ? promptTokens : outputTokens) };
  // A double holds microseconds since 1970 exactly, but not seconds with seven decimal digits.
  const arrivalUs = seconds * 1e6 + Math.round(Number(`0${fraction}`) * 1e6);
  return { line, arrivalUs, promptTokens, outputTokens, blockIds: null };
}
