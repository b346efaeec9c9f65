/**
 * Validates a configuration with Triton's messages. Source: `AutoCompleteBackendFields`, `ValidateModelConfig` and
 * `ValidateModelMetrics` in `model_config_utils.cc` (2026). For ensembles see `validate-ensemble.ts`, for sequence controls
 * `validate-sequences.ts`.
 */
import { firstOf, type Pieces } from "../../../base/pieces.ts";
import { BACKENDS } from "./backends.ts";
import type { DynamicBatching, ModelConfig, QueuePolicy } from "./model-config.ts";
import { maxBatchSize } from "./model-config.ts";
import { wrongEnsemble } from "./validate-ensemble.ts";
import { wrongControls } from "./validate-sequences.ts";

/** Returns the first error, or undefined if the configuration is valid. */
export function* wrongConfig(config: ModelConfig): Pieces<string | undefined> {
  const { name, platform = "", backend = "" } = config;
  const most = maxBatchSize(config);
  if (backend === "" && platform === "" && !config.default_model_filename)
    return `Invalid model name: Could not determine backend for model '${name}' with no backend in model configuration. Expected model name of the form 'model.<backend_name>'.`;
  if (backend === "" && platform !== "ensemble") return `unexpected platform type '${platform}' for ${name}`;
  if (backend !== "" && platform === "ensemble")
    return `Ensemble model '${name}' must have platform type 'ensemble' and empty backend type`;
  const expected = BACKENDS[backend]?.platform ?? "";
  if (expected !== "" && platform !== expected && !(backend === "tensorflow" && platform.startsWith("tensorflow_")))
    return `unexpected 'platform' and 'backend' pair, got:${platform}, ${backend}`;
  if (most < 0) return `'max_batch_size' must be non-negative value for ${name}`;
  const { dynamic_batching: dynamic, sequence_batching: sequences } = config;
  const cached = config.response_cache?.enable === true;
  if (sequences && cached)
    return `Response Cache does not currently support model ${name} with sequence batching scheduler. Please disable the response cache.`;
  const controls = sequences && (yield* wrongControls(sequences, name));
  if (controls !== undefined) return controls;
  const batching = (dynamic && (yield* wrongBatching(dynamic, most))) ?? (sequences && wrongSequences(sequences, most));
  if (batching !== undefined) return `${batching} for ${name}`;
  if (config.ensemble_scheduling && platform !== "ensemble")
    return `ensemble scheduling cannot be set for model '${name}' whose platform is not ensemble`;
  if (config.ensemble_scheduling) {
    const wrong = yield* wrongEnsemble(config);
    if (wrong !== undefined) return wrong;
  } else if (platform === "ensemble")
    return `ensemble scheduling must be set for ensemble ${name} whose platform is ensemble`;
  if (cached && config.model_transaction_policy?.decoupled)
    return `Response Cache does not currently support model ${name} with 'decoupled' transaction policy. Please disable the response cache.`;
  return yield* wrongMetrics(config);
}

/** Validates `model_metrics` as `ValidateModelMetrics` does. */
const wrongMetrics = ({ model_metrics: metrics }: ModelConfig): Pieces<string | undefined> =>
  firstOf(metrics?.metric_control ?? [], ({ metric_identifier: identifier, histogram_options: options }) => {
    if (identifier === undefined) return "metric control must specify 'metric_identifier'";
    if (!identifier.family) return "metric identifier must specify non-empty 'family'";
    if (options === undefined) return "metric control must specify 'histogram_options'";
    return options.buckets?.length ? undefined : "histogram options must specify non-empty 'buckets'";
  });

function wrongSizes(sizes: readonly number[], most: number, what: string): string | undefined {
  if (sizes.some((size) => size <= 0)) return `${what} must be positive`;
  return sizes.some((size) => size > most) ? `${what} must be <= max batch size` : undefined;
}

function* wrongBatching(batching: DynamicBatching, most: number): Pieces<string | undefined> {
  const sizes = wrongSizes(batching.preferred_batch_size ?? [], most, "dynamic batching preferred size");
  if (sizes !== undefined) return sizes;
  const { priority_levels: levels = 0, default_priority_level: level = 0 } = batching;
  const policies = batching.priority_queue_policy ?? {};
  const configuredLevels = Object.keys(policies);
  if (levels !== 0) {
    if (level === 0 || level > levels) return `default priority level must be in range [1, ${levels}]`;
    const range = `priority queue policy must have priority level in range [1, ${levels}]`;
    const beyond = yield* firstOf(configuredLevels, (of) =>
      Number(of) === 0 || Number(of) > levels ? range : undefined,
    );
    if (beyond !== undefined) return beyond;
  }
  if (!batching.preserve_ordering) return undefined;
  if (levels > 1) return "Only one priority level is allowed when 'preserve_ordering' is true";
  const delayed = (policy: QueuePolicy | undefined) =>
    policy?.default_timeout_microseconds && policy.timeout_action === "DELAY"
      ? "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true"
      : undefined;
  return delayed(batching.default_queue_policy) ?? (yield* firstOf(configuredLevels, (of) => delayed(policies[of])));
}

function wrongSequences(sequences: NonNullable<ModelConfig["sequence_batching"]>, most: number): string | undefined {
  const { oldest, direct } = sequences;
  const used = direct?.minimum_slot_utilization ?? 0;
  if (used < 0 || used > 1) return "sequence batching minimum slot utilization must be in range (0.0, 1.0]";
  return wrongSizes(oldest?.preferred_batch_size ?? [], most, "sequence batching preferred batch size");
}
