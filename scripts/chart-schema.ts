/**
 * Makes `values.schema.json` of the Helm chart. The options of each role come from the program's tables, so Helm refuses an
 * option that the server does not have. The rest of the schema is written here.
 */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { ROLE_NAMES, type RoleName } from "../src/app/config/roles.ts";
import type { OptionRow } from "../src/cli/options/option.ts";
import { serveOptions } from "../src/cli/options/serve-options.ts";
import { tritonServerOptions } from "../src/cli/options/triton-server-options.ts";

export const CHART = new URL("../deploy/helm/understudy/", import.meta.url).pathname;

interface Listener {
  readonly port: string;
  readonly address?: string;
  readonly number?: number;
}

/** Facts about a role in the chart's `files/roles.yaml`, which describes them. */
export interface ChartRole {
  readonly style: "file" | "flags";
  readonly listeners: Readonly<Record<string, Listener>>;
  readonly set: Readonly<Record<string, unknown>>;
  readonly defaults?: Readonly<Record<string, unknown>>;
  readonly files: Readonly<Record<string, string>>;
  readonly tls: { readonly options: Readonly<Record<string, unknown>> } | null;
  readonly keys: boolean;
  readonly probe: { readonly listener: string; readonly ready: string; readonly live?: string };
  readonly scrape: {
    readonly listener: string;
    readonly pages: readonly { readonly path: string; readonly job: string }[];
    readonly keep?: string;
  };
  readonly hpa: { readonly metric: string; readonly series: string; readonly query: string };
  readonly keda: readonly { readonly query: string; readonly threshold: string; readonly metricType: string }[];
}

/** The contents of `files/roles.yaml`, by role. `triton-openai` is role triton with its OpenAI front end. */
export const chartRoles: Readonly<Record<string, ChartRole>> = parse(readFileSync(`${CHART}files/roles.yaml`, "utf8"), {
  merge: true,
});

/** The options that the server of each role accepts, by the value of `--role`. */
export const OPTION_TABLES: Readonly<Record<RoleName, Readonly<Record<string, OptionRow>>>> = {
  vllm: serveOptions,
  "trtllm-serve": serveOptions,
  triton: tritonServerOptions,
};

/** Options that values may not set, each with the reason. Those that the chart sets itself are not listed here. */
export const NOT_IN_VALUES: Readonly<Record<string, string>> = {
  config: "the chart writes the file",
  compat: "not accepted in a file; set the variable UNDERSTUDY_COMPAT in extraEnv",
  "ready-file": "a probe tells when the server is ready",
  "exit-with-parent": "the container has no parent to watch",
  "self-signed-certs": "probes would have to know; use tls",
  "ssl-ca-certs": "probes show no certificate",
  "ssl-cert-reqs": "probes show no certificate",
  "allow-http": "probes use HTTP",
  "enable-kserve-frontends": "the chart publishes the OpenAI front end or KServe's ports, not both",
  "kserve-http-port": "as enable-kserve-frontends",
  "kserve-grpc-port": "as enable-kserve-frontends",
};
/** Options that values may not set for the server of one role, in addition to those of `NOT_IN_VALUES`. */
const NOT_IN_ROLE: Readonly<Record<string, readonly string[]>> = {
  vllm: ["metrics-port", "metrics-address"], // deprecated: role triton has them
  "trtllm-serve": ["metrics-port", "metrics-address", "http2-port"],
};

/** Returns the options of a role that the chart sets itself. */
export function optionsOfChart(role: RoleName): ReadonlySet<string> {
  const facts = Object.values(chartRoles).filter(({ set }) => set.role === role);
  const names = facts.flatMap(({ listeners, set, tls, keys }) => [
    ...Object.values(listeners).flatMap(({ port, address }) => (address ? [port, address] : [port])),
    // The tables lack `role`, because the command reads it to choose a table.
    ...Object.keys(set).filter((name) => name !== "openai" && Object.hasOwn(OPTION_TABLES[role], name)),
    ...Object.keys(tls?.options ?? {}),
    ...(keys ? ["api-key", "admin-key"] : []),
  ]);
  return new Set(names);
}

/** Returns the options of the server's role (`--role`) that the chart's values may set. */
export function optionsOfValues(role: RoleName): Readonly<Record<string, OptionRow>> {
  const own = optionsOfChart(role);
  const left = NOT_IN_ROLE[role] ?? [];
  return Object.fromEntries(
    Object.entries(OPTION_TABLES[role]).filter(
      ([name]) => !own.has(name) && !left.includes(name) && !Object.hasOwn(NOT_IN_VALUES, name),
    ),
  );
}

type Schema = Readonly<Record<string, unknown>>;

/** Returns the JSON schema of the value that a user of the chart gives an option. */
function typeOf({ arity, metavar }: OptionRow): Schema {
  const scalar = { type: ["string", "number"] };
  if (arity === "list") return { type: "array", minItems: 1, items: scalar };
  if (metavar === "" || metavar === "BOOLEAN") return { type: "boolean" };
  const [, choices] = /^\{(.*)\}$/.exec(metavar) ?? [];
  if (choices !== undefined) return { enum: choices.split(",") };
  return scalar;
}

const object = (properties: Readonly<Record<string, Schema>>, required: readonly string[] = []): Schema => ({
  type: "object",
  additionalProperties: false,
  properties,
  ...(required.length > 0 ? { required } : {}),
});
const mapOf = (values: Schema): Schema => ({ type: "object", additionalProperties: values });
const text = { type: "string" };
const on = { type: "boolean" };
const count = (minimum: number, maximum?: number): Schema => ({
  type: "integer",
  minimum,
  ...(maximum === undefined ? {} : { maximum }),
});
const port = count(1, 65535);
const any = { type: "object" };
const list = { type: "array" };
const duration = { type: "string", pattern: "^([0-9]+(ms|s|m|h))+$" };
const labels = mapOf(text);
/** Schema of a text that is empty or a valid name of an object in Kubernetes. */
const objectName = { type: "string", pattern: "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$", maxLength: 253 };
const monitor = object({ enabled: on, name: objectName, labels, interval: duration, scrapeTimeout: duration });

/** Returns the JSON schema with which Helm checks the values of a user. */
function valuesSchema(): Schema {
  const optionsOf = (role: RoleName): Schema =>
    object(Object.fromEntries(Object.entries(optionsOfValues(role)).map(([name, row]) => [name, typeOf(row)])));
  const listeners = new Set(Object.values(chartRoles).flatMap((facts) => Object.keys(facts.listeners)));
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Values of the Understudy chart",
    ...object({
      global: any,
      role: { enum: ROLE_NAMES },
      options: any,
      replicas: count(0),
      ranks: count(0, 256),
      image: object({ repository: text, tag: text, pullPolicy: { enum: ["Always", "IfNotPresent", "Never"] } }),
      imagePullSecrets: list,
      fullnameOverride: objectName,
      ports: object(Object.fromEntries([...listeners].sort().map((name) => [name, port]))),
      service: object({ type: { enum: ["ClusterIP", "NodePort", "LoadBalancer"] }, annotations: labels }),
      resources: any,
      loadSeconds: count(0),
      terminationGracePeriodSeconds: count(1),
      podLabels: labels,
      podAnnotations: labels,
      nodeSelector: labels,
      tolerations: list,
      affinity: any,
      extraEnv: list,
      extraVolumes: list,
      extraVolumeMounts: list,
      fixtures: { ...mapOf(text), propertyNames: { pattern: "^[A-Za-z0-9_-][A-Za-z0-9._-]*\\.(ya?ml|json)$" } },
      script: text,
      faultPlan: text,
      modelRepository: { ...mapOf(text), propertyNames: { pattern: "^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+$" } },
      keys: object({ existingSecret: objectName, api: { type: "array", items: { pattern: "^[^,]+$" } }, admin: text }),
      tls: object({ existingSecret: objectName, certificate: text, key: text }),
      podMonitor: monitor,
      serviceMonitor: monitor,
      prometheusRule: object({ enabled: on, labels }),
      prometheusConfig: object({ enabled: on, serviceAccount: objectName }),
      dashboards: object({ enabled: on, labels }),
      hpa: object({
        enabled: on,
        adapterRule: on,
        minReplicas: count(1),
        maxReplicas: count(1),
        target: { type: "string", pattern: "^([0-9]+(\\.[0-9]+)?m?)?$" },
        behavior: any,
      }),
      keda: object({
        enabled: on,
        minReplicas: count(0),
        maxReplicas: count(1),
        pollingInterval: count(1),
        cooldownPeriod: count(0),
        prometheus: { type: "string", pattern: "^https?://" },
        triggers: {
          type: "array",
          items: object({ query: text, threshold: text, metricType: { enum: ["Value", "AverageValue"] } }, [
            ...["query", "threshold", "metricType"],
          ]),
        },
      }),
      podDisruptionBudget: object({ enabled: on, maxUnavailable: { type: ["integer", "string"] } }),
      networkPolicy: object({ enabled: on, clients: list, monitoringNamespace: objectName }),
      inferencePool: object({
        enabled: on,
        appProtocol: { enum: ["http", "kubernetes.io/h2c"] },
        endpointPicker: object({ service: objectName, port, failureMode: { enum: ["FailClose", "FailOpen"] } }),
        objectives: mapOf({ type: "integer" }),
        modelRewrites: mapOf({ ...mapOf(count(0)), minProperties: 1 }),
        route: object({ enabled: on, gateway: objectName, timeout: duration }),
      }),
      llmdRole: { enum: ["", "prefill", "decode", "both"] },
      dynamo: object({ componentType: { enum: ["", "frontend", "worker"] } }),
    }),
    allOf: ROLE_NAMES.map((role) => ({
      if: { properties: { role: { const: role } } },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { properties: { options: { $ref: `#/definitions/${role}` } } },
    })),
    definitions: Object.fromEntries(ROLE_NAMES.map((role) => [role, optionsOf(role)])),
  };
}

/** Returns the text of `values.schema.json`. */
export const valuesSchemaText = (): string => `${JSON.stringify(valuesSchema(), null, 1)}\n`;
