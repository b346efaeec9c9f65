/** Reads the figures of a vLLM metrics page with which KV events are compared. */
import { type Exposition, parse, type Sample } from "../check/index.ts";

/** Figures of one engine. A figure that the page lacks is null. */
export interface PageFigures {
  readonly blockSize: number | null;
  /** Blocks of the pool, with the null block. */
  readonly numGpuBlocks: number | null;
  /** True if no request runs or waits. null: unknown. */
  readonly isAtRest: boolean | null;
  /** Prompt tokens and output tokens, without those from the prefix cache. */
  readonly computedTokens: number | null;
  /** Requests that ended, each choice for itself. */
  readonly requests: number | null;
  /** Tokens from another cache, and preemptions: with them, computed tokens cannot be counted. */
  readonly disturbances: number;
}

/** Returns the figures of an engine, or the reason why the text is no page. `engine`: value of the label, the rank. */
export function pageFigures(
  text: string | Uint8Array,
  contentType: string | null,
  engine: string,
): PageFigures | { readonly why: string } {
  const page = parse(text, { contentType });
  if ("unreadable" in page) return { why: page.unreadable };
  const [config] = samplesOf(page, "vllm:cache_config_info", engine);
  const running = sum(page, "vllm:num_requests_running", engine);
  const waiting = sum(page, "vllm:num_requests_waiting", engine);
  const prompt = sum(page, "vllm:prompt_tokens_total", engine);
  const output = sum(page, "vllm:generation_tokens_total", engine);
  const hits = sum(page, "vllm:prefix_cache_hits_total", engine);
  const ended = sum(page, "vllm:request_success_total", engine);
  const choices = sum(page, "vllm:request_params_n_sum", engine) ?? 0;
  return {
    blockSize: integerIn(config?.labels.block_size),
    numGpuBlocks: integerIn(config?.labels.num_gpu_blocks),
    isAtRest: running === null || waiting === null ? null : running + waiting === 0,
    computedTokens: prompt === null || output === null || hits === null ? null : prompt + output - hits,
    requests: ended === null ? null : Math.max(ended, choices),
    disturbances:
      (sum(page, "vllm:num_preemptions_total", engine) ?? 0) +
      (sum(page, "vllm:external_prefix_cache_hits_total", engine) ?? 0),
  };
}

/** Returns the samples of this engine, or all if none has its label. */
function samplesOf(page: Exposition, name: string, engine: string): readonly Sample[] {
  const samples = page.byName.get(name) ?? [];
  const own = samples.filter(({ labels }) => labels.engine === engine);
  return own.length > 0 ? own : samples;
}

function sum(page: Exposition, name: string, engine: string): number | null {
  const samples = samplesOf(page, name, engine);
  return samples.length === 0 ? null : samples.reduce((all, { value }) => all + value, 0);
}

const integerIn = (text: string | undefined): number | null =>
  text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null;
