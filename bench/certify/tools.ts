/** Describes the load generators that are certified: the command of each, and a reader of its result file. */
import { readFileSync } from "node:fs";
import manifest from "../../package.json";
import { root } from "../lib/bench.ts";
import type { ToolRequest } from "./compare.ts";
import type { Scenario } from "./scenarios.ts";

export interface Tool {
  readonly name: string;
  readonly version: string;
  /** Describes for docs/explanation/measuring.md which times the tool calls "ITL". */
  readonly itl: string;
  /** A file that the tool needs, and the command that creates it. */
  readonly needs?: { readonly file: string; readonly make: string };
  readonly env?: Readonly<Record<string, string>>;
  readonly manyProcesses?: true;
  /** Returns the command, to be run in the repository's root. The command writes its results to `folder`. */
  command(scenario: Scenario, url: string, folder: string): string[];
  read(folder: string): ToolRequest[];
}

const MODEL = "m";
/** Tokenizer of the tools. The server may use another one, so prompt lengths may differ a little between tools. */
const TOKENIZER = "test/conformance/model";
const INPUT = "64";

const pinned = (file: string) =>
  /==(\S+)/.exec(readFileSync(`${root}test/clients/requirements/${file}.txt`, "utf8"))![1]!;

function environment(name: string, program: string, file: string, flags = "") {
  const make = `python3 -m venv ${name} && ${name}/bin/python -m pip install ${flags}-r test/clients/requirements/${file}.txt`;
  return { file: `${name}/${program}`, make };
}

// biome-ignore lint/suspicious/noExplicitAny: a tool's result file, of which only some fields are read
type Json = any;
const json = (path: string): Json => JSON.parse(readFileSync(path, "utf8"));
const jsonLines = (path: string): Json[] =>
  readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

const load: Tool = {
  name: "understudy load",
  version: manifest.version,
  itl: "gaps between tokens; those of one chunk come 0 ms after each other",
  command: ({ concurrency, requests, tokens }, url, folder) => [
    ...["./bin/understudy", "load", "--url", url, "--model", MODEL, "--concurrency", String(concurrency)],
    ...["--num-prompts", String(requests), "--input-len", INPUT, "--output-len", String(tokens), "--no-server-metrics"],
    ...["--json", `${folder}/load.json`, "--save-detailed"],
  ],
  read: (folder) =>
    jsonLines(`${folder}/load.requests.jsonl`)
      .filter(({ error, chunks }) => error === null && chunks > 0)
      .map((row) => {
        const [times, widths] = [row.chunk_s as number[], row.chunk_tokens as number[]];
        const gapsMs = gapsOfSeconds(times);
        const rest = row.output_tokens - Math.max(1, widths[0]!);
        return {
          id: row.request_id,
          ttftMs: (row.first_s - row.send_s) * 1000,
          e2eMs: (row.last_s - row.send_s) * 1000,
          tpotMs: rest > 0 ? ((row.last_s - row.first_s) * 1000) / rest : null,
          itlMs: gapsMs.flatMap((gap, i) => [gap, ...Array<number>(Math.max(0, widths[i + 1]! - 1)).fill(0)]),
          gapsMs,
          chunks: row.chunks,
        };
      }),
};

const gapsOfSeconds = (times: readonly number[]) => times.slice(1).map((at, i) => (at - times[i]!) * 1000);

const vllm: Tool = {
  name: "vllm bench serve",
  version: pinned("vllm"),
  itl: "gaps between chunks, however many tokens each holds",
  needs: environment(".venv-vllm", "bin/python", "vllm", "--no-deps "),
  env: { HF_HUB_OFFLINE: "1", TRANSFORMERS_OFFLINE: "1" },
  command: ({ concurrency, requests, tokens }, url, folder) => [
    ...[".venv-vllm/bin/python", "bench/certify/vllm_serve.py", "--backend", "openai-chat", "--base-url", url],
    ...["--endpoint", "/v1/chat/completions", "--model", MODEL, "--tokenizer", TOKENIZER, "--dataset-name", "random"],
    ...["--random-input-len", INPUT, "--random-output-len", String(tokens), "--num-prompts", String(requests)],
    ...["--max-concurrency", String(concurrency), "--request-id-prefix", "certify-", "--disable-tqdm"],
    ...["--save-result", "--save-detailed", "--result-dir", folder, "--result-filename", "vllm.json"],
  ],
  // Each request id consists of the prefix and a number. The arrays of the result are in the order of these numbers.
  read: (folder) => {
    const { ttfts, itls, output_lens, errors } = json(`${folder}/vllm.json`);
    return (ttfts as number[]).flatMap((ttft, i) => {
      if (errors[i] !== "") return [];
      const gapsMs = (itls[i] as number[]).map((gap) => gap * 1000);
      const decodeMs = gapsMs.reduce((sum, gap) => sum + gap, 0);
      const tpotMs = output_lens[i] > 1 ? decodeMs / (output_lens[i] - 1) : null;
      const e2eMs = ttft * 1000 + decodeMs;
      return [
        { id: `certify-${i}`, ttftMs: ttft * 1000, e2eMs, tpotMs, itlMs: gapsMs, gapsMs, chunks: gapsMs.length + 1 },
      ];
    });
  },
};

const aiperf: Tool = {
  name: "aiperf",
  version: pinned("aiperf"),
  itl: "one mean per request, what others call TPOT; gaps between chunks are its ICL",
  needs: environment(".venv-aiperf", "bin/aiperf", "aiperf"),
  manyProcesses: true,
  command: ({ concurrency, requests, tokens }, url, folder) => [
    ...[".venv-aiperf/bin/aiperf", "profile", "--model", MODEL, "--url", url, "--endpoint-type", "chat", "--streaming"],
    ...["--tokenizer", TOKENIZER, "--concurrency", String(concurrency), "--request-count", String(requests)],
    ...["--synthetic-input-tokens-mean", INPUT, "--output-tokens-mean", String(tokens)],
    ...["--extra-inputs", "ignore_eos:true", "--use-server-token-count", "--artifact-dir", folder, "--ui", "none"],
  ],
  read: (folder) =>
    jsonLines(`${folder}/profile_export.jsonl`).flatMap(({ metadata, metrics }) => {
      const value = (name: string) => metrics[name]?.value;
      if (metadata.benchmark_phase !== "profiling" || value("time_to_first_token") === undefined) return [];
      const [itl, gaps] = [value("inter_token_latency"), value("inter_chunk_latency")];
      return [
        {
          id: metadata.x_request_id,
          ttftMs: value("time_to_first_token"),
          e2eMs: value("request_latency"),
          tpotMs: itl ?? null,
          itlMs: itl === undefined ? [] : [itl],
          gapsMs: gaps ?? null,
          chunks: (gaps?.length ?? 0) + 1,
        },
      ];
    }),
};

const guidellm: Tool = {
  name: "guidellm",
  version: pinned("by-hand/guidellm"),
  itl: "one mean per request; its TPOT divides the whole latency, first token included, by the tokens",
  needs: environment(".venv-guidellm", "bin/guidellm", "by-hand/guidellm"),
  command: ({ concurrency, requests, tokens }, url, folder) => [
    ...[".venv-guidellm/bin/guidellm", "run", "--backend", `kind=openai_http,target=${url},model=${MODEL}`],
    ...["--profile", `kind=concurrent,streams=${concurrency}`, "--constraint", `kind=max_requests,count=${requests}`],
    ...["--tokenizer", `kind=huggingface_auto,model=${TOKENIZER}`],
    ...["--data", `kind=synthetic_text,prompt_tokens=${INPUT},output_tokens=${tokens}`],
    ...["--disable-console-interactive", "--output", `kind=json,path=${folder}/guidellm.json`],
  ],
  read: (folder) =>
    (json(`${folder}/guidellm.json`).benchmarks[0].requests.successful as Json[]).map((row) => ({
      id: row.response_id,
      ttftMs: row.time_to_first_token_ms,
      e2eMs: row.request_latency * 1000,
      tpotMs: row.time_per_output_token_ms,
      itlMs: row.inter_token_latency_ms === null ? [] : [row.inter_token_latency_ms],
      gapsMs: null,
      chunks: row.info.timings.token_iterations,
    })),
};

export const tools: readonly Tool[] = [load, vllm, aiperf, guidellm];
