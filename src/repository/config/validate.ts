/**
 * What is wrong with a configuration? In Triton's words: `ValidateModelConfig`, `ValidateModelIOConfig` and
 * `ValidateInstanceGroup` of `model_config_utils.cc` (2026). Ensembles: `validate-ensemble.ts`, sequences'
 * controls: `validate-sequences.ts`.
 */
import { BACKENDS } from "./backends.ts";
import type { DynamicBatching, ModelConfig } from "./model-config.ts";
import { maxBatchSize } from "./model-config.ts";
import { wrongEnsemble } from "./validate-ensemble.ts";
import { wrongControls } from "./validate-sequences.ts";

/** The first thing that is wrong; undefined: nothing is. */
export function wrongConfig(config: ModelConfig): string | undefined {
  const { name, platform = "", backend = "" } = config;
  const most = maxBatchSize(config);
  if (backend === "" && platform !== "ensemble") return `unexpected platform type '${platform}' for ${name}`;
  if (backend !== "" && platform === "ensemble")
    return `Ensemble model '${name}' must have platform type 'ensemble' and empty backend type`;
  const own = BACKENDS[backend]?.platform ?? "";
  if (own !== "" && platform !== own && !(backend === "tensorflow" && platform.startsWith("tensorflow_")))
    return `unexpected 'platform' and 'backend' pair, got:${platform}, ${backend}`;
  if (most < 0) return `'max_batch_size' must be non-negative value for ${name}`;
  const { dynamic_batching: dynamic, sequence_batching: sequences } = config;
  const cached = config.response_cache?.enable === true;
  if (sequences && cached)
    return `Response Cache does not currently support model ${name} with sequence batching scheduler. Please disable the response cache.`;
  const controls = sequences && wrongControls(sequences, name);
  if (controls !== undefined) return controls;
  const batching = (dynamic && wrongBatching(dynamic, most)) ?? (sequences && wrongSequences(sequences, most));
  if (batching !== undefined) return `${batching} for ${name}`;
  if (config.ensemble_scheduling && platform !== "ensemble")
    return `ensemble scheduling cannot be set for model '${name}' whose platform is not ensemble`;
  if (config.ensemble_scheduling) {
    const wrong = wrongEnsemble(config);
    if (wrong !== undefined) return wrong;
  } else if (platform === "ensemble")
    return `ensemble scheduling must be set for ensemble ${name} whose platform is ensemble`;
  if (cached && config.model_transaction_policy?.decoupled)
    return `Response Cache does not currently support model ${name} with 'decoupled' transaction policy. Please disable the response cache.`;
  return undefined;
}

function wrongSizes(sizes: readonly number[], most: number, what: string): string | undefined {
  if (sizes.some((size) => size <= 0)) return `${what} must be positive`;
  return sizes.some((size) => size > most) ? `${what} must be <= max batch size` : undefined;
}

function wrongBatching(batching: DynamicBatching, most: number): string | undefined {
  const sizes = wrongSizes(batching.preferred_batch_size ?? [], most, "dynamic batching preferred size");
  if (sizes !== undefined) return sizes;
  const { priority_levels: levels = 0, default_priority_level: level = 0 } = batching;
  const policies = Object.entries(batching.priority_queue_policy ?? {});
  if (levels !== 0) {
    if (level === 0 || level > levels) return `default priority level must be in range [1, ${levels}]`;
    if (policies.some(([of]) => Number(of) === 0 || Number(of) > levels))
      return `priority queue policy must have priority level in range [1, ${levels}]`;
  }
  if (!batching.preserve_ordering) return undefined;
  if (levels > 1) return "Only one priority level is allowed when 'preserve_ordering' is true";
  const all = [batching.default_queue_policy, ...policies.map(([, policy]) => policy)];
  const delays = all.some((one) => one?.default_timeout_microseconds && one.timeout_action === "DELAY");
  return delays ? "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true" : undefined;
}

function wrongSequences(sequences: NonNullable<ModelConfig["sequence_batching"]>, most: number): string | undefined {
  const { oldest, direct } = sequences;
  const used = direct?.minimum_slot_utilization ?? 0;
  if (used < 0 || used > 1) return "sequence batching minimum slot utilization must be in range (0.0, 1.0]";
  return wrongSizes(oldest?.preferred_batch_size ?? [], most, "sequence batching preferred batch size");
}
