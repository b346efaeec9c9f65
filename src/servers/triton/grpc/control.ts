/**
 * Answers the methods other than inference. Each method takes a parsed message and returns a message in protobuf's JSON.
 * Source: `grpc_server.cc` (2026).
 */

import type { Choice } from "../../../wire/protobuf/message-reader.ts";
import type { TritonLogSettings } from "../config/triton-config.ts";
import type { ServerAround } from "../inference/around.ts";
import { modelMetadataOf, serverMetadataOf, statisticsOfAll } from "../inference/described.ts";
import { TRACE_NAMES, traceChanges } from "../inference/trace-settings.ts";
import { invalidArg, TritonError } from "../model-config/status.ts";
import { versionNumber } from "../models/version-number.ts";
import { DISABLED_MEMORY } from "../tensors/shared-memory.ts";

type JsonNode = string | number | boolean | null | readonly JsonNode[] | JsonDict;
interface JsonDict {
  readonly [key: string]: JsonNode;
}

/** A request as `readMessage` returns it. Absent fields are undefined. */
export interface ControlRequest {
  readonly name?: string;
  readonly version?: string;
  readonly ready?: boolean;
  readonly repository_name?: string;
  readonly model_name?: string;
  readonly key?: string;
  readonly offset?: bigint;
  readonly byte_size?: bigint;
  readonly parameters?: ReadonlyMap<string, SettingValue>;
  readonly settings?: ReadonlyMap<string, SettingValue>;
}
interface SettingValue {
  readonly value?: readonly string[];
  readonly parameter_choice?: Choice;
}
interface Kinds {
  readonly bool_param: boolean;
  readonly uint32_param: number;
  readonly string_param: string;
  readonly bytes_param: Uint8Array;
}
const NO_SETTINGS: ReadonlyMap<string, SettingValue> = new Map();

/** Returns the value, or undefined if it has another type. */
const valueOfKind = <K extends keyof Kinds>(
  { parameter_choice: choice }: SettingValue,
  kind: K,
): Kinds[K] | undefined => (choice?.case === kind ? (choice.value as Kinds[K]) : undefined);

export interface ControlMethod {
  /** Name of the protocol in `--grpc-restricted-protocol`. */
  readonly protocol: string;
  /** Throws a `TritonError`. */
  readonly answer: (request: ControlRequest, around: ServerAround) => object | Promise<object>;
}

const of = (protocol: string, answer: ControlMethod["answer"]): ControlMethod => ({ protocol, answer });
const memory = (answer: ControlMethod["answer"]) => of("shared-memory", answer);
/** Defines a method that changes shared memory and returns an empty response. It fails if clients may not use shared memory. */
const changesMemory = (answer: (request: ControlRequest, around: ServerAround) => void) =>
  memory((request, around) => {
    if (!around.config.memory.clientSharedMemory) throw new TritonError("UNSUPPORTED", DISABLED_MEMORY);
    answer(request, around);
    return {};
  });
const repository = (answer: ControlMethod["answer"]) =>
  of("model-repository", (request, around) => {
    if (request.repository_name)
      throw new TritonError("UNSUPPORTED", "'repository_name' specification is not supported");
    return answer(request, around);
  });

/** The methods by name. The messages of a method have the same name. */
export const CONTROL: Readonly<Record<string, ControlMethod>> = {
  ServerLive: of("health", () => ({ live: true })),
  ServerReady: of("health", (_, { server }) => ({ ready: server.ready })),
  ModelReady: of("health", ({ name = "", version = "" }, { server }) => ({
    ready: server.isReady(name, versionNumber(version)),
  })),
  ServerMetadata: of("metadata", (_, { server }) => serverMetadataOf(server)),
  ModelMetadata: of("metadata", ({ name = "", version = "" }, { server }) =>
    modelMetadataOf(server, name, versionNumber(version)),
  ),
  ModelConfig: of("model-config", ({ name = "", version = "" }, { server }) => ({
    config: server.find(name, versionNumber(version)).config,
  })),
  ModelStatistics: of("statistics", ({ name, version = "" }, { server }) => ({
    model_stats: statisticsOfAll(server.statistics(name || null, versionNumber(version))),
  })),
  RepositoryIndex: repository(({ ready = false }, { server }) => ({ models: server.index(ready) })),
  RepositoryModelLoad: repository(load),
  RepositoryModelUnload: repository(unload),
  SystemSharedMemoryStatus: memory(memoryStatus),
  SystemSharedMemoryRegister: changesMemory(({ name = "", key = "", offset = 0n, byte_size: bytes = 0n }, around) =>
    around.memory.register(name, key, Number(offset), Number(bytes)),
  ),
  SystemSharedMemoryUnregister: changesMemory(({ name }, around) => around.memory.unregister(name || null)),
  CudaSharedMemoryStatus: memory(({ name }) => {
    if (!name) return {};
    throw new TritonError("NOT_FOUND", `Unable to find cuda shared memory region: '${name}'`);
  }),
  CudaSharedMemoryRegister: changesMemory(({ name = "" }, { server }) => {
    throw invalidArg(server.facts.cudaRefusal(name));
  }),
  CudaSharedMemoryUnregister: changesMemory(() => {}),
  TraceSetting: of("trace", traceSetting),
  LogSettings: of("logging", logSettings),
};

function memoryStatus({ name }: ControlRequest, around: ServerAround): JsonDict {
  const regions = around.memory
    .named(name || null)
    .map(({ name: own, key, offset, bytes }) => [own, { name: own, key, offset: `${offset}`, byte_size: `${bytes}` }]);
  return { regions: Object.fromEntries(regions) };
}

async function load(request: ControlRequest, { server }: ServerAround) {
  const { model_name: name = "", parameters = NO_SETTINGS } = request;
  let config: string | null = null;
  const files = new Map<string, number>();
  for (const [key, value] of parameters) {
    const wrong = (expected: string) =>
      invalidArg(`invalid value type for load parameter '${key}', expected ${expected}.`);
    if (key === "config") {
      const text = valueOfKind(value, "string_param");
      if (text === undefined) throw wrong("string_param");
      config = text;
    } else if (key.startsWith("file:")) {
      const bytes = valueOfKind(value, "bytes_param");
      if (bytes === undefined) throw wrong("bytes_param");
      files.set(key.slice(5), bytes.length);
    } else throw invalidArg(`unrecognized load parameter '${key}'.`);
  }
  await server.load(name, { config, files });
  return {};
}

function unload(request: ControlRequest, { server }: ServerAround): JsonDict {
  const { model_name: name = "", parameters = NO_SETTINGS } = request;
  const asked = parameters.get("unload_dependents");
  const dependents = asked && valueOfKind(asked, "bool_param");
  if (asked !== undefined && dependents === undefined)
    throw invalidArg("invalid value type for 'unload_dependents' parameter, expected bool_param.");
  server.unload(name, dependents ?? false);
  return {};
}

function traceSetting(request: ControlRequest, { server, traces }: ServerAround) {
  const { model_name: model = "", settings = NO_SETTINGS } = request;
  const name = model === "" ? null : model;
  if (name !== null && server.versions(name).length === 0) throw invalidArg(`Request for unknown model : ${name}`);
  const changes = traceChanges({
    file: settings.has("trace_file"),
    gap: " ",
    levels: settings.get("trace_level")?.value ?? [],
    value(setting) {
      const given = settings.get(setting);
      const [first, ...more] = given?.value ?? [];
      if (more.length > 0) throw invalidArg(`expect only 1 value for '${setting}'`);
      return given === undefined ? undefined : (first ?? null);
    },
  });
  traces.set(name, changes);
  const now = traces.of(name);
  const shown = {
    trace_level: "OFF",
    trace_file: "",
    trace_mode: "triton",
    ...Object.fromEntries(TRACE_NAMES.map((setting) => [setting, `${now[setting]}`])),
  };
  return { settings: Object.fromEntries(Object.entries(shown).map(([key, value]) => [key, { value: [value] }])) };
}

/** Log settings: Triton's name, our field, the type of the value, and the name of the type in errors. */
const LOG_FIELDS = [
  ["log_info", "info", "bool_param", "boolean"],
  ["log_warning", "warning", "bool_param", "boolean"],
  ["log_error", "error", "bool_param", "boolean"],
  ["log_verbose_level", "verbose", "uint32_param", "int32"],
  ["log_format", "format", "string_param", "string"],
] as const;

/** Changes the settings one after the other. Settings before an invalid value stay changed. */
function logSettings({ settings = NO_SETTINGS }: ControlRequest, { logging }: ServerAround): JsonDict {
  if (settings.has("log_file"))
    throw new TritonError("UNSUPPORTED", "log file location can not be updated through network protocol");
  for (const [name, field, kind, expected] of LOG_FIELDS) {
    const given = settings.get(name);
    if (given === undefined) continue;
    const value = valueOfKind(given, kind);
    if (value === undefined) throw invalidArg(`expect ${expected} for '${name}'`);
    if (name === "log_format" && value !== "default" && value !== "ISO8601")
      throw invalidArg(`invalid argument for log_format, got: ${value}`);
    logging.set({ ...logging.get(), [field]: value } as TritonLogSettings);
  }
  const now = logging.get();
  const shown = LOG_FIELDS.map(([name, field, kind]) => [name, { [kind]: now[field] }]);
  return { settings: { log_file: { string_param: now.file }, ...Object.fromEntries(shown) } };
}
