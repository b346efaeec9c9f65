/**
 * What does a configuration mean where it says nothing? Names, backend, file, policies, instances: `GetNormalizedModelConfig`
 * and `NormalizeInstanceGroup` of `model_config_utils.cc` (2026): GPUs are there where a group asks for them.
 */
import { mapped, type Pieces } from "../../../base/pieces.ts";
import { BACKENDS, backendOfFile, backendOfPlatform } from "./backends.ts";
import type { InstanceGroup, ModelConfig } from "./model-config.ts";
import type { ConfigMessage } from "./pbtxt.ts";
import { withVllmTensors } from "./vllm-tensors.ts";

const IDLE_US = 1_000_000;

/** `folder`: the model's name; `files`: what lies in its first version's folder. */
export function* normalized(read: ConfigMessage, folder: string, files: readonly string[]): Pieces<ModelConfig> {
  const said = read as unknown as Partial<ModelConfig>;
  const { backend, platform, file } = backendFields(said, files, folder);
  const given = backend === "vllm" ? withVllmTensors(said) : said;
  const batching = given.dynamic_batching;
  const preferred = (sizes: readonly number[] | undefined) => ({
    ...((given.max_batch_size ?? 0) > 0 && (sizes ?? []).length === 0
      ? { preferred_batch_size: [given.max_batch_size!] }
      : {}),
  });
  const sequences = given.sequence_batching;
  const oldest = sequences?.oldest as (ConfigMessage & { preferred_batch_size?: readonly number[] }) | undefined;
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

/** As `AutoCompleteBackendFields` fills them in. */
function backendFields(given: Partial<ModelConfig>, files: readonly string[], folder: string) {
  const { platform = "", backend = "", default_model_filename: named = "" } = given;
  if (platform === "ensemble") return { backend, platform, file: named };
  // A model called model.NAME.EXTENSION or the like tells its backend.
  const found =
    backend ||
    backendOfPlatform(platform) ||
    (platform === "" ? backendOfFile(named) || files.map(backendOfFile).find((one) => one !== undefined) : "") ||
    "";
  if (found === "" && platform === "" && named === "") return { ...fieldsOfName(folder), platform };
  const facts = BACKENDS[found];
  return { backend: found, platform: platform || (facts?.platform ?? ""), file: named || (facts?.file ?? "") };
}

/** Where nothing else tells it, a folder called `model.BACKEND` does; it says no platform, which some backends must have. */
function fieldsOfName(folder: string): { readonly backend: string; readonly file: string } {
  const [, backend] = /^[^.]*\.(.*)$/s.exec(folder) ?? [];
  return backend === undefined ? { backend: "", file: "" } : { backend, file: `model.${backend}` };
}

/** Whichever GPU a group names is there, and GPU 0; who names none is on the processor. */
function devicesOf({ kind = "KIND_AUTO", gpus = [] }: InstanceGroup): Pick<InstanceGroup, "kind" | "gpus"> {
  if (kind === "KIND_AUTO") return { kind: gpus.length > 0 ? "KIND_GPU" : "KIND_CPU" };
  return kind === "KIND_GPU" && gpus.length === 0 ? { kind, gpus: [0] } : { kind };
}

/** At least one, each with a name, a kind and a count. */
function instanceGroups(
  groups: readonly InstanceGroup[],
  name: string,
  backend: string,
): Pieces<readonly InstanceGroup[]> {
  // One that nobody named has the model's name as it is.
  const some: readonly InstanceGroup[] = groups.length > 0 ? groups : [{ name }];
  return mapped(some, (group, at) => {
    const devices = devicesOf(group);
    const most = devices.kind === "KIND_CPU" ? (BACKENDS[backend]?.instances ?? 1) : 1;
    const count = (group.count ?? 0) >= 1 ? group.count! : most;
    return { ...group, name: group.name || `${name}_${at}`, ...devices, count };
  });
}
