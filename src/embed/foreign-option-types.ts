/**
 * Which flags of another stand-in does a server take, with `compat`? Written by scripts/option-types.ts from the table in
 * src/cli/compat.
 */
export interface ForeignOptions {
  /** Only with compat: that stand-in's own `max-request-body-size-mb`, docs/migrating.md. */
  readonly maxRequestBodySizeMb?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `max-waiting-queue-length`, docs/migrating.md. */
  readonly maxWaitingQueueLength?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `max-cpu-loras`, docs/migrating.md. */
  readonly maxCpuLoras?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `mode`, docs/migrating.md. */
  readonly mode?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `startup-duration`, docs/migrating.md. */
  readonly startupDuration?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `enable-sleep-mode`, docs/migrating.md. */
  readonly enableSleepMode?: boolean | undefined;
  /** Only with compat: that stand-in's own `log-http`, docs/migrating.md. */
  readonly logHttp?: boolean | undefined;
  /** Only with compat: that stand-in's own `latency-calculator`, docs/migrating.md. */
  readonly latencyCalculator?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `time-to-first-token`, docs/migrating.md. */
  readonly timeToFirstToken?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `time-to-first-token-std-dev`, docs/migrating.md. */
  readonly timeToFirstTokenStdDev?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `inter-token-latency`, docs/migrating.md. */
  readonly interTokenLatency?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `inter-token-latency-std-dev`, docs/migrating.md. */
  readonly interTokenLatencyStdDev?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `prefill-overhead`, docs/migrating.md. */
  readonly prefillOverhead?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `prefill-time-per-token`, docs/migrating.md. */
  readonly prefillTimePerToken?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `prefill-time-std-dev`, docs/migrating.md. */
  readonly prefillTimeStdDev?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `time-factor-under-load`, docs/migrating.md. */
  readonly timeFactorUnderLoad?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `kv-cache-transfer-latency`, docs/migrating.md. */
  readonly kvCacheTransferLatency?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `kv-cache-transfer-latency-std-dev`, docs/migrating.md. */
  readonly kvCacheTransferLatencyStdDev?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `kv-cache-transfer-time-per-token`, docs/migrating.md. */
  readonly kvCacheTransferTimePerToken?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `kv-cache-transfer-time-std-dev`, docs/migrating.md. */
  readonly kvCacheTransferTimeStdDev?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `max-tool-call-integer-param`, docs/migrating.md. */
  readonly maxToolCallIntegerParam?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `min-tool-call-integer-param`, docs/migrating.md. */
  readonly minToolCallIntegerParam?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `max-tool-call-number-param`, docs/migrating.md. */
  readonly maxToolCallNumberParam?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `min-tool-call-number-param`, docs/migrating.md. */
  readonly minToolCallNumberParam?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `max-tool-call-array-param-length`, docs/migrating.md. */
  readonly maxToolCallArrayParamLength?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `min-tool-call-array-param-length`, docs/migrating.md. */
  readonly minToolCallArrayParamLength?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `tool-call-not-required-param-probability`, docs/migrating.md. */
  readonly toolCallNotRequiredParamProbability?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `object-tool-call-not-required-field-probability`, docs/migrating.md. */
  readonly objectToolCallNotRequiredFieldProbability?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `tool-call-extra-call-probability`, docs/migrating.md. */
  readonly toolCallExtraCallProbability?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `skip-tool-validation`, docs/migrating.md. */
  readonly skipToolValidation?: boolean | undefined;
  /** Only with compat: that stand-in's own `enable-kvcache`, docs/migrating.md. */
  readonly enableKvcache?: boolean | undefined;
  /** Only with compat: that stand-in's own `kv-cache-size`, docs/migrating.md. */
  readonly kvCacheSize?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `global-cache-hit-threshold`, docs/migrating.md. */
  readonly globalCacheHitThreshold?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `hash-seed`, docs/migrating.md. */
  readonly hashSeed?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `data-parallel-rank`, docs/migrating.md. */
  readonly dataParallelRank?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `dataset-path`, docs/migrating.md. */
  readonly datasetPath?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `dataset-table-name`, docs/migrating.md. */
  readonly datasetTableName?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `force-dummy-tokenizer`, docs/migrating.md. */
  readonly forceDummyTokenizer?: boolean | undefined;
  /** Only with compat: that stand-in's own `default-embedding-dimensions`, docs/migrating.md. */
  readonly defaultEmbeddingDimensions?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `fake-metrics-refresh-interval`, docs/migrating.md. */
  readonly fakeMetricsRefreshInterval?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `mm-processor-kwargs`, docs/migrating.md. */
  readonly mmProcessorKwargs?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `ec-transfer-config`, docs/migrating.md. */
  readonly ecTransferConfig?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `enforce-eager`, docs/migrating.md. */
  readonly enforceEager?: boolean | undefined;
  /** Only with compat: that stand-in's own `vmodule`, docs/migrating.md. */
  readonly vmodule?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `logtostderr`, docs/migrating.md. */
  readonly logtostderr?: boolean | undefined;
  /** Only with compat: that stand-in's own `alsologtostderr`, docs/migrating.md. */
  readonly alsologtostderr?: boolean | undefined;
  /** Only with compat: that stand-in's own `log_file`, docs/migrating.md. */
  readonly log_file?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `log_dir`, docs/migrating.md. */
  readonly log_dir?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `log_file_max_size`, docs/migrating.md. */
  readonly log_file_max_size?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `stderrthreshold`, docs/migrating.md. */
  readonly stderrthreshold?: string | number | boolean | undefined;
  /** Only with compat: that stand-in's own `one_output`, docs/migrating.md. */
  readonly one_output?: boolean | undefined;
  /** Only with compat: that stand-in's own `add_dir_header`, docs/migrating.md. */
  readonly add_dir_header?: boolean | undefined;
  /** Only with compat: that stand-in's own `skip_headers`, docs/migrating.md. */
  readonly skip_headers?: boolean | undefined;
  /** Only with compat: that stand-in's own `skip_log_headers`, docs/migrating.md. */
  readonly skip_log_headers?: boolean | undefined;
  /** Only with compat: that stand-in's own `log_backtrace_at`, docs/migrating.md. */
  readonly log_backtrace_at?: string | number | boolean | undefined;
}
