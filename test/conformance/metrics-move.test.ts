/** Runs a real server under a small load and checks that every listed metric family moves. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";
import { parseExposition } from "../metrics/parse.ts";

let server: HostedServer;
beforeAll(async () => {
  // A pool for two and a half long answers, so that some are preempted, and a prompt of several blocks, so that some are
  // cached.
  const flags = "--timing constant:ttft=8ms,itl=4ms --num-gpu-blocks-override 24 --max-model-len 256 --max-num-seqs 4";
  server = await hosted([...flags.split(" "), "--disable-uvicorn-access-log", "--max-num-batched-tokens", "64"]);
});
afterAll(async () => void (await server.stop()));

const MOVE = [
  "vllm:num_requests_running",
  "vllm:num_requests_waiting",
  "vllm:num_requests_waiting_by_reason",
  "vllm:kv_cache_usage_perc",
  "vllm:prefix_cache_queries_total",
  "vllm:prefix_cache_hits_total",
  "vllm:num_preemptions_total",
  "vllm:prompt_tokens_total",
  "vllm:prompt_tokens_by_source_total",
  "vllm:prompt_tokens_cached_total",
  "vllm:prompt_tokens_cached_by_source_total",
  "vllm:generation_tokens_total",
  "vllm:request_success_total",
  "vllm:request_prompt_tokens",
  "vllm:request_generation_tokens",
  "vllm:iteration_tokens_total",
  "vllm:request_max_num_generation_tokens",
  "vllm:request_params_n",
  "vllm:request_num_preemptions",
  "vllm:request_prefill_kv_computed_tokens",
  "vllm:request_params_max_tokens",
  "vllm:time_to_first_token_seconds",
  "vllm:inter_token_latency_seconds",
  "vllm:request_time_per_output_token_seconds",
  "vllm:e2e_request_latency_seconds",
  "vllm:request_queue_time_seconds",
  "vllm:request_inference_time_seconds",
  "vllm:request_prefill_time_seconds",
  "vllm:request_decode_time_seconds",
  "understudy_requests_total",
  "understudy_requests_open",
  "understudy_streams_open",
  "understudy_steps_total",
  "understudy_step_start_lateness_seconds",
  "understudy_step_end_lateness_seconds",
  "understudy_step_write_seconds",
  "understudy_step_host_seconds",
  "understudy_event_loop_delay_seconds",
] as const;

async function families() {
  const page = await (await fetch(`${server.url}/metrics/all`)).text();
  return new Map(parseExposition(page).map(({ name, text }) => [name, text]));
}

test("every family moves", async () => {
  const first = await families();
  const still = new Set<string>(MOVE);
  const prompt = "one two three four five six seven eight nine ten ".repeat(4);
  const ask = (max_tokens: number) =>
    fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ prompt, max_tokens, ignore_eos: true, stream: true }),
    }).then((answer) => answer.text());
  for (let round = 0; round < 20 && still.size > 0; round++) {
    let open = true;
    const answers = Promise.all([60, 100, 140, 180, 180, 180].map(ask)).finally(() => {
      open = false;
    });
    while (open) for (const [name, text] of await families()) if (text !== first.get(name)) still.delete(name);
    await answers;
  }
  expect([...still]).toEqual([]);
}, 60_000);
