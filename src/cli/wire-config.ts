/** From the options of the wire to their configuration: what was not said stays away. */
import type { WireConfig } from "../config/types.ts";
import type { Values } from "./options.ts";

const ALL = ["*"];

export function wireConfig(values: Values): { readonly wire?: WireConfig } {
  const config = {
    tokenizer: values.tokenizer,
    script: values.script,
    responseRole: values["response-role"],
    fingerprintMode: values["fingerprint-mode"],
    fingerprintValue: values["fingerprint-value"],
    trackServerLoad: values["enable-server-load-tracking"],
    perRequestMetrics: values["enable-per-request-metrics"],
    keepAliveS: values["sse-keep-alive-interval"],
    maxNumQueuedReqs: values["max-num-queued-reqs"],
    maxNumQueuedTokens: values["max-num-queued-tokens"],
    generation: values["override-generation-config"],
    cors: values["allowed-origins"] && {
      origins: values["allowed-origins"],
      methods: values["allowed-methods"] ?? ALL,
      headers: values["allowed-headers"] ?? ALL,
      credentials: values["allow-credentials"] ?? false,
    },
  };
  const said = Object.entries(config).filter(([, value]) => value !== undefined);
  return said.length === 0 ? {} : { wire: Object.fromEntries(said) };
}
