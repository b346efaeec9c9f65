/**
 * Fills in the defaults of a configuration: names, backend, model file, policies and instance groups. Source:
 * `GetNormalizedModelConfig` and `NormalizeInstanceGroup` in `model_config_utils.cc` (2026). Assumes that every GPU named in a
 * group exists.
 */
import { mapped, type Pieces } from "../../../base/pieces.ts";
import { BACKENDS, backendOfFile, backendOfPlatform } from "./backends.ts";
import { type InstanceGroup, type ModelConfig, maxBatchSize } from "./model-config.ts";
import type { ConfigMessage } from "./pbtxt.ts";
import { withVllmTensors } from "./vllm-tensors.ts";

const IDLE_US = 1_000_000;

/**
 * Returns the configuration with its defaults. `folder`: the model's name. `files`: the names of the files in the folder of its
 * first version.
 */
export function* normalized(read: ConfigMessage, folder: string, files: readonly string[]): Pieces<ModelConfig> {
  const said = read as unknown as Partial<ModelConfig>;
  const { backend, platform, file } = backendFields(said, files, folder);
  const given = backend === "vllm" ? withVllmTensors(said) : said;
  const batching = given.dynamic_batching;
  const preferred = (sizes: readonly number[] = []) =>
    maxBatchSize(given) > 0 && sizes.length === 0 ? { preferred_batch_size: [maxBatchSize(given)] } : {};
  const sequences = given.sequence_batching;
  const oldest = sequences?.oldest;
  const optimization = given.optimization as ConfigMessage | undefined;
  const name = given.name || folder;
  return {
    ...given,
    name,
    ...(platform === "" ? {} : { platform }),
    ...(backend === "" ? {} : { backend }),
    ...(file === "" ? {} : { default_model_filename: file }),
    version_policy: given.version_policy ?? { latest: { num_versions: 1 } },
    ...(batching ? { dynamic_batching: { ...batching, ...preferred(batching.preferred_batch_size) } } : {}),
    ...(sequences
      ? {
          sequence_batching: {
            ...sequences,
            max_sequence_idle_microseconds: sequences.max_sequence_idle_microseconds || IDLE_US,
            ...(oldest ? { oldest: { ...oldest, ...preferred(oldest.preferred_batch_size) } } : {}),
          },
        }
      : {}),
    ...(given.ensemble_scheduling
      ? {}
      : {
          optimization: {
            ...optimization,
            input_pinned_memory: optimization?.input_pinned_memory ?? { enable: true },
            output_pinned_memory: optimization?.output_pinned_memory ?? { enable: true },
          },
          instance_group: yield* instanceGroups(given.instance_group ?? [], name, backend),
        }),
  };
}

/** Fills in backend, platform and model file as `AutoCompleteBackendFields` does. */
function backendFields(partial: Partial<ModelConfig>, files: readonly string[], folder: string) {
  const { platform = "", backend = "", default_model_filename: named = "" } = partial;
  if (platform === "ensemble") return { backend, platform, file: named };
  // A file named like a backend's default model file, for example `model.onnx`, identifies the backend.
  const resolved =
    backend ||
    backendOfPlatform(platform) ||
    (platform === ""
      ? backendOfFile(named) || files.map(backendOfFile).find((candidate) => candidate !== undefined)
      : "") ||
    "";
  if (resolved === "" && platform === "" && named === "") return { ...fieldsOfName(folder), platform };
  const facts = BACKENDS[resolved];
  return { backend: resolved, platform: platform || (facts?.platform ?? ""), file: named || (facts?.file ?? "") };
}

/** Derives the backend from a folder named `model.BACKEND`. The platform stays empty, although some backends require one. */
function fieldsOfName(folder: string): { readonly backend: string; readonly file: string } {
  const [, backend] = /^[^.]*\.(.*)$/s.exec(folder) ?? [];
  return backend === undefined ? { backend: "", file: "" } : { backend, file: `model.${backend}` };
}

/**
 * Returns the kind and GPUs of a group. Every GPU in a list exists; KIND_GPU without a list means GPU 0. KIND_AUTO without GPUs
 * means the CPU.
 */
function devicesOf({ kind = "KIND_AUTO", gpus = [] }: InstanceGroup): Pick<InstanceGroup, "kind" | "gpus"> {
  if (kind === "KIND_AUTO") return { kind: gpus.length > 0 ? "KIND_GPU" : "KIND_CPU" };
  return kind === "KIND_GPU" && gpus.length === 0 ? { kind, gpus: [0] } : { kind };
}

/** Returns at least one group, each with a name, a kind and a count. */
function instanceGroups(
  groups: readonly InstanceGroup[],
  name: string,
  backend: string,
): Pieces<readonly InstanceGroup[]> {
  // The group added by default has the model's name without a suffix.
  const nonEmpty: readonly InstanceGroup[] = groups.length > 0 ? groups : [{ name }];
  return mapped(nonEmpty, (group, at) => {
    const devices = devicesOf(group);
    const most = devices.kind === "KIND_CPU" ? (BACKENDS[backend]?.instances ?? 1) : 1;
    const count = (group.count ?? 0) >= 1 ? group.count! : most;
    return { ...group, name: group.name || `${name}_${at}`, ...devices, count };
  });
}
