/**
 * Reads results of `vllm bench serve` 0.33 (`--save-result`, `--save-detailed`) and of `understudy load`, which writes the
 * same keys and an object `understudy`. Lists are in seconds, means in milliseconds.
 */
import { type AnsweredRequest, type FitRun, runOf } from "./run.ts";

export type JsonRecord = Readonly<Record<string, unknown>>;

/** Returns a number, also from a text. NaN for other values. */
export function numberIn(value: unknown): number {
  if (typeof value === "number") return value;
  return typeof value === "string" ? Number(value) : Number.NaN;
}

export function isVllm(json: JsonRecord): boolean {
  return "mean_ttft_ms" in json && "total_input_tokens" in json;
}

/** Returns the run, or a text that names the missing fields. */
export function vllmRun(json: JsonRecord, source: string): FitRun | string {
  const format = "understudy" in json ? "understudy load" : "vllm bench serve";
  const most = json.max_concurrency;
  const concurrency = typeof most === "number" && !Number.isFinite(rateOf(json)) ? most : null;
  const requests = answeredRequests(json);
  if (typeof requests === "string") return requests;
  if (requests !== null) return runOf({ source, format, concurrency }, requests);
  const number = (key: string) => (typeof json[key] === "number" ? (json[key] as number) : Number.NaN);
  const completed = number("completed");
  const means = {
    completed,
    durationUs: number("duration") * 1e6,
    inputTokens: number("total_input_tokens") / completed,
    outputTokens: number("total_output_tokens") / completed,
    ttftUs: number("mean_ttft_ms") * 1000,
    tpotUs: number("mean_tpot_ms") * 1000,
  };
  if (Object.values(means).some((mean) => !(mean > 0)))
    return "a result with completed requests, duration, tokens, mean_ttft_ms and mean_tpot_ms above 0";
  return { source, format, concurrency, requests: null, ...means };
}

const rateOf = ({ request_rate: rate }: JsonRecord) => (typeof rate === "number" ? rate : Number.POSITIVE_INFINITY);

/** Returns the answered requests, or a text that names the missing fields. Null if the result has no lists. */
function answeredRequests(json: JsonRecord): AnsweredRequest[] | null | string {
  const { input_lens: inputs, output_lens: outputs, ttfts, itls, start_times: starts } = json;
  if (ttfts === undefined || itls === undefined) return null;
  const lists = [inputs, outputs, ttfts, itls, starts];
  if (!lists.every((list): list is unknown[] => Array.isArray(list) && list.length === (ttfts as unknown[]).length))
    return "lists of one length under input_lens, output_lens, ttfts, itls and start_times";
  const answered: AnsweredRequest[] = [];
  for (const [i, gaps] of (itls as unknown[]).entries()) {
    const [inputTokens, outputTokens, ttft, start] = [inputs, outputs, ttfts, starts].map((list) =>
      numberIn((list as unknown[])[i]),
    ) as [number, number, number, number];
    if (!Array.isArray(gaps) || !gaps.every((gap) => typeof gap === "number")) return "numbers under itls";
    // Skip failed requests, which have no first token.
    if (!(outputTokens >= 1 && ttft > 0 && inputTokens >= 1 && Number.isFinite(start))) continue;
    const sentUs = start * 1e6;
    let us = sentUs + ttft * 1e6;
    const firstUs = us;
    const laterUs = gaps.map((gap: number) => {
      us += gap * 1e6;
      return us;
    });
    // Gaps are between chunks. If a chunk had several tokens, only the first and the last time are those of tokens.
    const perToken = laterUs.length === outputTokens - 1;
    answered.push({ sentUs, firstUs, lastUs: us, inputTokens, outputTokens, laterUs: perToken ? laterUs : null });
  }
  return answered.length > 0 ? answered : "a request that was answered";
}
