/**
 * Our own schema of a `prometheus.yml` with Kubernetes discovery, from Prometheus' documentation (3.x). Debian's promtool is built
 * without that discovery and refuses such a file. The schema knows only the members that our files use.
 */
import Ajv from "ajv";

const text = { type: "string", minLength: 1 };
const duration = { type: "string", pattern: "^([0-9]+(ms|s|m|h))+$" };
const label = { type: "string", pattern: "^[a-zA-Z_][a-zA-Z0-9_]*$" };
const object = (properties: Readonly<Record<string, object>>, required: readonly string[] = []) => ({
  type: "object",
  additionalProperties: false,
  properties,
  required,
});

const relabelConfigs = {
  type: "array",
  items: {
    ...object({
      source_labels: { type: "array", minItems: 1, items: label },
      separator: text,
      target_label: label,
      regex: text,
      replacement: { type: "string" },
      action: { enum: ["replace", "keep", "drop", "labeldrop", "labelkeep", "labelmap", "keepequal", "dropequal"] },
    }),
    // A label that is kept or dropped by needs a pattern, and a new value a label.
    if: { properties: { action: { enum: ["keep", "drop"] } }, required: ["action"] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: { required: ["source_labels", "regex"] },
    else: { required: ["target_label"] },
  },
};

const compiled = new Ajv({ strict: false, allErrors: true }).compile(
  object(
    {
      global: object({ scrape_interval: duration, evaluation_interval: duration, scrape_timeout: duration }),
      rule_files: { type: "array", items: text },
      scrape_configs: {
        type: "array",
        minItems: 1,
        items: object(
          {
            job_name: text,
            metrics_path: { type: "string", pattern: "^/" },
            scheme: { enum: ["http", "https"] },
            params: { type: "object", additionalProperties: { type: "array", items: text } },
            scrape_interval: duration,
            scrape_timeout: duration,
            tls_config: object({ insecure_skip_verify: { type: "boolean" } }),
            kubernetes_sd_configs: {
              type: "array",
              minItems: 1,
              items: object(
                {
                  role: { enum: ["node", "service", "pod", "endpoints", "endpointslice", "ingress"] },
                  namespaces: object({ own_namespace: { type: "boolean" }, names: { type: "array", items: text } }),
                },
                ["role"],
              ),
            },
            relabel_configs: relabelConfigs,
            metric_relabel_configs: relabelConfigs,
          },
          ["job_name", "kubernetes_sd_configs"],
        ),
      },
    },
    ["scrape_configs"],
  ),
);

/** Returns the errors of a configuration, each as "path: message". */
export function prometheusErrors(configuration: unknown): string[] {
  return compiled(configuration) ? [] : compiled.errors!.map((error) => `${error.instancePath}: ${error.message}`);
}
