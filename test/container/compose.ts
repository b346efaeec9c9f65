/** Reads deploy/compose.yaml and checks it against the schema of the Compose specification (from check-jsonschema 0.39.0). */
import { readFileSync } from "node:fs";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { parse } from "yaml";
import schema from "./compose-spec.json";

const root = new URL("../../", import.meta.url).pathname;

export interface Service {
  readonly image: string;
  readonly command?: readonly string[];
  readonly volumes?: readonly string[];
  readonly [key: string]: unknown;
}
export interface ComposeFile {
  readonly services: Readonly<Record<"server" | "load" | "prometheus" | "grafana", Service>>;
}

export const COMPOSE = "deploy/compose.yaml";
export const readYaml = (path: string): unknown => parse(readFileSync(root + path, "utf8"), { merge: true });
export const composeFile = readYaml(COMPOSE) as ComposeFile;

const ajv = new Ajv({ strict: false, allErrors: true });
addFormats(ajv);
const validate = ajv.compile(schema);

/** Returns the paths of the values that the schema refuses, each with the reason. */
export function composeErrors(file: unknown): string[] {
  if (validate(file)) return [];
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath}: ${message}`);
}

/** Returns the pairs of paths of a service's volumes: from the root of the repository, and in the container. */
export function mountsOf({ volumes = [] }: Service): { readonly from: string; readonly to: string }[] {
  return volumes.map((text) => {
    const [from = "", to = ""] = text.split(":");
    return { from: from.replace(/^\.\//, "deploy/"), to };
  });
}
