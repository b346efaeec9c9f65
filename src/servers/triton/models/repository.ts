/**
 * Reads the folders of `--model-repository`. Each model has a folder with `config.pbtxt` and one numbered folder per version.
 */
import { type Dirent, existsSync, opendirSync, readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { parse } from "yaml";
import { atOnce, type Pieces } from "../../../base/pieces.ts";
import { PythonJsonError, plainPieces } from "../../pydantic/json.ts";
import { configFromJson, withoutLastCommas } from "../model-config/config-json.ts";
import { isDecoupled, isEnsemble, isLlmApi, type ModelConfig } from "../model-config/model-config.ts";
import { normalized } from "../model-config/normalize.ts";
import { type ConfigMessage, pbtxtInPieces } from "../model-config/pbtxt.ts";
import { ROOT } from "../model-config/schema.ts";
import { signatureOf } from "../model-config/signature.ts";
import { internal } from "../model-config/status.ts";
import { wrongConfig } from "../model-config/validate.ts";
import { modelText } from "./model-file.ts";
import type { ListedModel } from "./table.ts";

export interface FoundModel {
  readonly name: string;
  /** Path of the repository as it was configured. */
  readonly repository: string;
  readonly path: string;
  readonly config: ModelConfig;
  /** Versions that the version policy selects, in ascending order. May be empty. */
  readonly versions: readonly number[];
  /** Fingerprint of configuration, versions and files. Equal if nothing has changed. */
  readonly signature: string;
  /** Sizes of the files in the load request, by path, or null if the files are in the model's folder. */
  readonly broughtBytes: ReadonlyMap<string, number> | null;
}

/** Parts of a load request: a configuration, or null, and sizes of files by their path in the model's folder. */
export interface LoadOverride {
  readonly config: string | null;
  readonly files: ReadonlyMap<string, number>;
}
export const NO_OVERRIDE: LoadOverride = { config: null, files: new Map() };

/** A longer configuration is parsed in pieces. */
const LARGE_CHARACTERS = 65_536;

export class Repository {
  readonly #paths: readonly string[];
  readonly #later: boolean;

  /** `paths`: repositories; duplicates are ignored. `later`: accepts configuration fields newer than 2.51. */
  constructor(paths: readonly string[], later: boolean) {
    this.#paths = [...new Set(paths)].sort();
    this.#later = later;
  }

  /**
   * Names of all model folders, sorted, without names that occur in two repositories. Throws if a repository is not a folder.
   */
  names(): string[] {
    return [...this.#counts()].flatMap(([name, count]) => (count === 1 ? [name] : [])).sort();
  }

  /** Names that occur in several repositories, with the number of repositories. Throws if a repository is not a folder. */
  namesakes(): ReadonlyMap<string, number> {
    return new Map([...this.#counts()].filter(([, count]) => count > 1));
  }

  /**
   * Lists all model folders in the order of the repository index. With `namespacing`, equal names are separate entries. Throws
   * if a repository is not a folder.
   */
  listed(namespacing: boolean): ListedModel[] {
    const folders = this.#paths.flatMap((repository) =>
      foldersIn(repository)
        .sort()
        .map((name) => ({ name, repository })),
    );
    if (namespacing) return folders;
    const models = new Map<string, ListedModel>();
    for (const { name, repository } of folders)
      models.set(name, { name, repository: models.has(name) ? null : repository });
    return [...models.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  #counts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const path of this.#paths) for (const name of foldersIn(path)) counts.set(name, (counts.get(name) ?? 0) + 1);
    return counts;
  }

  /** Reads a model. Throws an Error whose message is for the log; clients receive less detail. */
  read(name: string, override: LoadOverride = NO_OVERRIDE): FoundModel {
    return atOnce(this.reading(name, override));
  }

  /** Does the same as `read`, in pieces. */
  *reading(name: string, override: LoadOverride): Pieces<FoundModel> {
    if (name === "" || name.includes("..") || name.includes("/"))
      throw new Error(`invalid model name '${name}', model name must not contain path traversal characters`);
    const homes = this.#paths.filter((path) => hasFolder(path, name));
    if (homes.length > 1) throw new Error(notUnique(name));
    if (override.files.size > 0 && override.config === null)
      throw new Error("Load parameter 'config' must be specified for model file override");
    const strange = [...override.files.keys()].find((path) => path === "" || path.split("/").includes(".."));
    if (strange !== undefined) throw new Error(`file path '${strange}' escapes the model's directory`);
    const [repository] = homes;
    if (repository === undefined && override.files.size === 0)
      throw new Error(`failed to poll model '${name}': model not found in any model repository.`);
    const path = join(repository ?? "", name);
    const found = override.files.size > 0 ? versionsOf(override.files.keys()) : versionsIn(path);
    const read = yield* this.#config(path, override);
    const first = found[0];
    const inFirst = override.files.size === 0 && first !== undefined ? readdirSync(join(path, `${first}`)) : [];
    const completed = first === undefined ? read : withModelYaml(read, join(path, `${first}`, "model.yaml"));
    const config = yield* normalized(completed, name, inFirst);
    if (config.name !== name)
      throw new Error(
        `unexpected directory name '${name}' for model '${config.name}', directory name must equal model name`,
      );
    const wrong = (yield* wrongConfig(config)) ?? wrongAgent(config);
    if (wrong !== undefined) throw new Error(wrong);
    const versions = chosen(config, isEnsemble(config) && found.length === 0 ? [1] : found);
    const files = override.files.size > 0 ? [...override.files.keys()] : changes(path);
    const signature = JSON.stringify([yield* signatureOf(config), versions, files]);
    const broughtBytes = override.files.size > 0 ? override.files : null;
    return { name, repository: repository ?? "", path, config, versions, signature, broughtBytes };
  }

  /** Sets an ensemble's transaction policy: it is decoupled if a step is. Other models stay unchanged. */
  withSteps(folder: FoundModel, stepOf: (name: string) => ModelConfig | undefined): FoundModel {
    const steps = folder.config.ensemble_scheduling?.step;
    if (steps === undefined) return folder;
    const decoupled = steps.some(({ model_name: name }) => isDecoupledModel(stepOf(name!)));
    return { ...folder, config: { ...folder.config, model_transaction_policy: { decoupled } } };
  }

  *#config(path: string, { config }: LoadOverride): Pieces<ConfigMessage> {
    if (config !== null) {
      try {
        const text = withoutLastCommas(config);
        const json = text.length > LARGE_CHARACTERS ? yield* plainPieces(text) : JSON.parse(text);
        return yield* configFromJson(json, this.#later);
      } catch (error) {
        throw new Error(`Invalid config override: ${reasonOf(error)}`);
      }
    }
    const file = join(path, "config.pbtxt");
    if (!existsSync(file)) return {};
    try {
      return yield* pbtxtInPieces(modelText(file), ROOT, this.#later);
    } catch (error) {
      throw new Error(`failed to read text proto from ${file}: ${(error as Error).message}`);
    }
  }
}

/** Adds batch size and transaction policy from the `model.yaml` of a TensorRT-LLM LLM API model. */
function withModelYaml(read: ConfigMessage, file: string): ConfigMessage {
  if (!isLlmApi(read as Partial<ModelConfig>) || !existsSync(file)) return read;
  const { triton_config: tritonConfig } = (parse(modelText(file)) ?? {}) as {
    readonly triton_config?: { readonly max_batch_size?: number; readonly decoupled?: boolean };
  };
  if (tritonConfig === undefined) return read;
  return {
    ...read,
    max_batch_size: Number(tritonConfig.max_batch_size ?? 0),
    model_transaction_policy: { decoupled: tritonConfig.decoupled === true },
  };
}

const isDecoupledModel = (config: ModelConfig | undefined) => config !== undefined && isDecoupled(config);

/** The only repository agent that comes with Triton. */
const AGENT = "checksum";

function wrongAgent({ model_repository_agents: agents }: ModelConfig): string | undefined {
  const strange = agents?.agents?.find(({ name }) => name !== AGENT);
  return strange && `unable to find 'libtritonrepoagent_${strange.name}.so' for repo agent '${strange.name}'`;
}

/** Returns the message of a parser's error. */
const reasonOf = (error: unknown): string => {
  if (error instanceof PythonJsonError) return `${error.message} at ${error.position}`;
  return error instanceof Error ? error.message : "it is no JSON";
};

export const notUnique = (name: string): string =>
  `failed to poll model '${name}': not unique across all model repositories`;
const notOpened = (path: string) => internal(`failed to open directory ${resolve(path)}`);

function foldersIn(path: string): string[] {
  // A symbolic link may point to a folder.
  const isFolderLink = (entry: Dirent) => !entry.isFile() && isFolder(join(path, entry.name));
  try {
    const found = readdirSync(path, { withFileTypes: true });
    return found.filter((entry) => entry.isDirectory() || isFolderLink(entry)).map(({ name }) => name);
  } catch {
    throw notOpened(path);
  }
}

/**
 * Reports whether the repository has a model folder of this name, without listing the others. Throws if the repository is not a
 * folder.
 */
function hasFolder(path: string, name: string): boolean {
  try {
    if (name !== "." && isFolder(join(path, name))) return true;
  } catch {
    // The name is not valid for a file.
  }
  try {
    opendirSync(path).closeSync();
    return false;
  } catch {
    throw notOpened(path);
  }
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/** Versions of a model: folders whose name is a positive number without leading zeros, in ascending order. */
const versionsIn = (path: string): number[] => ascendingVersions(foldersIn(path));
const versionsOf = (files: Iterable<string>): number[] =>
  ascendingVersions([...files].map((file) => file.split("/")[0]!));
const ascendingVersions = (names: readonly string[]): number[] =>
  [...new Set(names.filter((name) => /^[1-9]\d*$/.test(name)).map(Number))].sort((a, b) => a - b);

function chosen({ version_policy: policy }: ModelConfig, found: readonly number[]): readonly number[] {
  if (policy.specific) return found.filter((version) => policy.specific!.versions?.includes(version));
  if (!policy.latest) return found;
  const count = policy.latest.num_versions ?? 0;
  return count === 0 ? [] : found.slice(-count);
}

/** Lists modification times and sizes of the files in the folder, two levels deep. */
function changes(path: string): string[] {
  const seen = (file: string) => {
    const { mtimeMs, size } = statSync(file);
    return `${file.slice(path.length)} ${mtimeMs} ${size}`;
  };
  return readdirSync(path).flatMap((name) => {
    const inner = join(path, name);
    return isFolder(inner) ? readdirSync(inner).map((file) => seen(join(inner, file))) : [seen(inner)];
  });
}
