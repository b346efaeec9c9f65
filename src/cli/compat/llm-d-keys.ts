/**
 * The options of llm-d-inference-sim, and the translation of each option. Source: its repository at eec055a, 2026-08
 * (`pkg/common/config.go`, `parser.go`).
 */

/**
 * Values that a flag takes in the simulator's parser (pflag). "value": one value. "list": all values up to the next flag.
 * "switch": `--x` or `--x=false`. "toggle": `--x` or `--no-x`.
 */
type Takes = "value" | "list" | "switch" | "toggle";

type Topic =
  | "answers"
  | "cache"
  | "events"
  | "fakes"
  | "limits"
  | "log"
  | "ranks"
  | "readiness"
  | "threshold"
  | "timing"
  | "tools"
  | "transfer";

export type Fate =
  /** Name of our option with the same meaning. */
  | { readonly as: string }
  /** The key sets some of our options, together with other keys of the same topic. */
  | { readonly shapes: Topic }
  /** The key has no effect in llm-d-inference-sim and none here. */
  | { readonly ignored: true }
  /** The key has an effect in llm-d-inference-sim but none here. A notice at the start states the difference. */
  | { readonly differs: string }
  /** The key is not supported. A notice at the start gives the reason or an alternative. */
  | { readonly unsupported: string };

export interface Key {
  readonly takes: Takes;
  readonly fate: Fate;
}

const as = (takes: Takes, name: string): Key => ({ takes, fate: { as: name } });
const shapes = (of: Topic, takes: Takes = "value"): Key => ({
  takes,
  fate: { shapes: of },
});
const ignored = (takes: Takes): Key => ({ takes, fate: { ignored: true } });
const unsupported = (takes: Takes, why: string): Key => ({ takes, fate: { unsupported: why } });

const NO_MEDIA = "there is no encoder and there are no images";
const NO_TOKENIZER = "the built-in vocabulary or --tokenizer DIR counts tokens";

export const KEYS: Readonly<Record<string, Key>> = {
  port: as("value", "port"),
  model: as("value", "model"),
  "served-model-name": as("list", "served-model-name"),
  "max-request-body-size-mb": as("value", "max-body-mb"),
  "max-model-len": as("value", "max-model-len"),
  "max-num-seqs": as("value", "max-num-seqs"),
  "max-waiting-queue-length": shapes("limits"),
  "max-loras": as("value", "max-loras"),
  "max-cpu-loras": ignored("value"),
  "lora-modules": as("list", "lora-modules"),
  mode: shapes("answers"),
  "startup-duration": shapes("readiness"),
  "enable-sleep-mode": as("toggle", "enable-sleep-mode"),
  "enable-request-id-headers": as("switch", "enable-request-id-headers"),
  "log-http": shapes("log", "switch"),
  "latency-calculator": shapes("timing"),
  "time-to-first-token": shapes("timing"),
  "time-to-first-token-std-dev": shapes("timing"),
  "inter-token-latency": shapes("timing"),
  "inter-token-latency-std-dev": shapes("timing"),
  "prefill-overhead": shapes("timing"),
  "prefill-time-per-token": shapes("timing"),
  "prefill-time-std-dev": shapes("timing"),
  "time-factor-under-load": shapes("timing"),
  "kv-cache-transfer-latency": shapes("transfer"),
  "kv-cache-transfer-latency-std-dev": shapes("transfer"),
  "kv-cache-transfer-time-per-token": shapes("transfer"),
  "kv-cache-transfer-time-std-dev": shapes("transfer"),
  seed: as("value", "seed"),
  "max-tool-call-integer-param": shapes("tools"),
  "min-tool-call-integer-param": shapes("tools"),
  "max-tool-call-number-param": shapes("tools"),
  "min-tool-call-number-param": shapes("tools"),
  "max-tool-call-array-param-length": shapes("tools"),
  "min-tool-call-array-param-length": shapes("tools"),
  "tool-call-not-required-param-probability": shapes("tools"),
  "object-tool-call-not-required-field-probability": shapes("tools"),
  "tool-call-extra-call-probability": shapes("tools"),
  "skip-tool-validation": ignored("switch"),
  "enable-kvcache": shapes("cache", "switch"),
  "kv-cache-size": shapes("cache"),
  "block-size": as("value", "block-size"),
  "global-cache-hit-threshold": shapes("threshold"),
  "hash-seed": shapes("events"),
  "zmq-endpoint": shapes("events"),
  "zmq-max-connect-attempts": {
    takes: "value",
    fate: { differs: "connecting is tried again until it succeeds" },
  },
  "event-batch-size": shapes("events"),
  "use-vllm-map-event-format": shapes("events", "switch"),
  "kv-events-replay-endpoint": shapes("events"),
  "kv-events-replay-queue-size": shapes("events"),
  "failure-injection-rate": as("value", "failure-injection-rate"),
  "failure-types": as("list", "failure-types"),
  "data-parallel-size": shapes("ranks"),
  "data-parallel-rank": shapes("ranks"),
  "dataset-path": as("value", "dataset"),
  "dataset-url": unsupported("value", "nothing is downloaded; give a local file with dataset-path"),
  "dataset-in-memory": as("switch", "dataset-in-memory"),
  "dataset-table-name": as("value", "dataset-table"),
  "render-url": unsupported("value", NO_TOKENIZER),
  "render-timeout": unsupported("value", NO_TOKENIZER),
  "mm-render-timeout": unsupported("value", NO_TOKENIZER),
  "uds-socket-path": unsupported("value", NO_TOKENIZER),
  "tokenizers-cache-dir": unsupported("value", NO_TOKENIZER),
  "force-dummy-tokenizer": {
    takes: "switch",
    fate: { differs: "tokens are those of the built-in vocabulary: other ids, and other counts" },
  },
  "default-embedding-dimensions": as("value", "embedding-dimensions"),
  "ssl-certfile": as("value", "ssl-certfile"),
  "ssl-keyfile": as("value", "ssl-keyfile"),
  "self-signed-certs": as("switch", "self-signed-certs"),
  "fake-metrics": shapes("fakes", "list"),
  "fake-metrics-refresh-interval": shapes("fakes"),
  "mm-encoder-only": unsupported("toggle", NO_MEDIA),
  omni: unsupported("switch", NO_MEDIA),
  "image-emission-rate": unsupported("value", NO_MEDIA),
  "time-to-generate-image": unsupported("value", NO_MEDIA),
  "time-to-generate-image-std-dev": unsupported("value", NO_MEDIA),
  "mm-processor-kwargs": ignored("value"),
  "ec-transfer-config": ignored("value"),
  "enforce-eager": ignored("toggle"),
  "enable-prefix-caching": as("toggle", "enable-prefix-caching"),
  "tensor-parallel-size": ignored("value"),
  v: shapes("log"),
  vmodule: ignored("value"),
  logtostderr: ignored("switch"),
  alsologtostderr: ignored("switch"),
  log_file: ignored("value"),
  log_dir: ignored("value"),
  log_file_max_size: ignored("value"),
  stderrthreshold: ignored("value"),
  one_output: ignored("switch"),
  add_dir_header: ignored("switch"),
  skip_headers: ignored("switch"),
  skip_log_headers: ignored("switch"),
  log_backtrace_at: ignored("value"),
};

/** Finds a key by its name, or a toggle by its name after `no-`. `sets`: false if the name begins with `no-`. */
export function keyOf(
  written: string,
): { readonly name: string; readonly key: Key; readonly sets: boolean } | undefined {
  if (Object.hasOwn(KEYS, written)) return { name: written, key: KEYS[written]!, sets: true };
  const positive = written.replace(/^no-/, "");
  const isNegated = positive !== written && Object.hasOwn(KEYS, positive) && KEYS[positive]!.takes === "toggle";
  return isNegated ? { name: positive, key: KEYS[positive]!, sets: false } : undefined;
}
