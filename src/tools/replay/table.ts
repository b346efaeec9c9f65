/** Formats the results of a replay as a table for the terminal, with the speed of the machine. */
import type { Spread } from "./percentiles.ts";
import type { Results } from "./results.ts";

/** Returns the table. `wallUs`: real time of the replay in microseconds, which the results do not contain. */
export function replayTable(results: Results, wallUs: number): string {
  const { trace, requests, tokens, throughput, prefix_cache: cache, kv } = results;
  const refused = requests.refused.too_long + requests.refused.busy;
  const wallS = wallUs / 1e6;
  const speed = (count: number) => (wallS > 0 ? grouped(count / wallS) : "-");
  const extra = [
    requests.left > 0 ? `${grouped(requests.left)} left by their clients` : "",
    requests.unfinished > 0 ? `${grouped(requests.unfinished)} unfinished` : "",
    refused > 0 ? `${grouped(refused)} refused (${refusals(requests.refused)})` : "",
    requests.cut > 0 ? `${grouped(requests.cut)} cut to the context` : "",
    requests.bad_lines > 0 ? `${grouped(requests.bad_lines)} bad lines` : "",
    requests.passed_over > 0 ? `${grouped(requests.passed_over)} passed over` : "",
  ].filter(Boolean);
  const engines = results.engines > 1 ? `, ${results.engines} engines` : "";
  return [
    `${trace.name} (${trace.format}${engines})`,
    `${results.model}; timing ${results.timing}`,
    "",
    row("", ["mean", "p50", "p90", "p99"]),
    latency("TTFT, ms", results.ttft_ms),
    latency("ITL, ms", results.itl_ms),
    latency("TPOT, ms", results.tpot_ms),
    latency("E2E, ms", results.e2e_ms),
    latency("queue, ms", results.queue_ms),
    "",
    line("requests", [`${grouped(requests.finished)} of ${grouped(requests.arrived)} finished`, ...extra].join(", ")),
    line(
      "throughput",
      `${decimal(throughput.requests_per_s)} requests/s, ${grouped(throughput.output_tokens_per_s)} output tokens/s, ${grouped(throughput.total_tokens_per_s)} tokens/s with prompts`,
    ),
    line(
      "tokens",
      `${grouped(tokens.prompt)} prompt (${grouped(tokens.prompt_cached)} cached), ${grouped(tokens.generated)} output`,
    ),
    line(
      "prefix cache",
      cache.hit_rate === null
        ? "no queries"
        : `${percent(cache.hit_rate)} of ${grouped(cache.query_tokens)} queried tokens`,
    ),
    line("preemptions", grouped(results.preemptions)),
    line("KV peak", `${percent(kv.usage_peak)}, ${grouped(kv.blocks_peak)} of ${grouped(kv.blocks_usable)} blocks`),
    line("simulated", `${decimal(results.duration_s)} s in ${grouped(results.steps)} steps`),
    line(
      "wall time",
      `${decimal(wallS)} s: ${speed(tokens.generated)} output tokens/s, ${speed(tokens.prompt + tokens.generated)} with prompts, ${speed(requests.finished)} requests/s`,
    ),
  ].join("\n");
}

function refusals({ too_long: tooLong, busy }: Results["requests"]["refused"]): string {
  const parts = [
    tooLong > 0 ? `${grouped(tooLong)} longer than max_model_len` : "",
    busy > 0 ? `${grouped(busy)} with the queue full` : "",
  ];
  return parts.filter(Boolean).join(", ");
}

function latency(name: string, { mean, p50, p90, p99 }: Spread): string {
  return row(
    name,
    [mean, p50, p90, p99].map((value) => (value === null ? "-" : value < 10 ? fine(value) : decimal(value))),
  );
}

const row = (name: string, cells: readonly string[]) =>
  name.padEnd(14) + cells.map((cell) => cell.padStart(13)).join("");
const line = (name: string, text: string) => `${name.padEnd(14)} ${text}`;
export const grouped = (value: number) => Math.round(value).toLocaleString("en-US");
export const decimal = (value: number) =>
  value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const fine = (value: number) => value.toFixed(3);
const percent = (share: number) => `${(share * 100).toFixed(1)} %`;
