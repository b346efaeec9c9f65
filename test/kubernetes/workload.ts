/** Finds the Deployment or StatefulSet among rendered objects, and the options that its server gets. */
import { parse } from "yaml";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import type { KubernetesObject, Yaml } from "./objects.ts";

export interface Workload {
  readonly object: KubernetesObject;
  readonly container: Yaml;
  /** Options by name, from the file and the flags. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Result of the program for the container's arguments. */
  readonly resolved: ReturnType<typeof resolveServeConfig>;
}

/** Returns null if the objects have no workload. */
export function workloadIn(objects: readonly KubernetesObject[]): Workload | null {
  const object = objects.find(({ kind }) => kind === "Deployment" || kind === "StatefulSet");
  if (object === undefined) return null;
  const container = object.spec.template.spec.containers[0];
  const [command, ...args] = container.args as string[];
  if (command !== "serve") throw new Error(`the container runs ${command}`);
  const map = objects.find(({ metadata }) => metadata.name === `${object.metadata.name}-options`);
  const readFile = (path: string) => {
    if (path !== "/etc/understudy/options/options.yaml") throw new Error(`${path} is not mounted`);
    return (map!.data as Readonly<Record<string, string>>)["options.yaml"]!;
  };
  const flags = args.map((word) => /^--([^=]+)=(.*)$/s.exec(word)!.slice(1) as [string, string]);
  const { config, ...given } = Object.fromEntries(flags);
  const options = { ...given, ...(config === undefined ? {} : parse(readFile(config))) };
  return { object, container, options, resolved: resolveServeConfig(args, {}, readFile) };
}
