/**
 * Writes build/option-types/*.ts from the table of options: names, types and hover texts of the package's options. The build
 * runs this script. src/embed imports the types of these files as if they stood in src/embed (`rootDirs` in tsconfig.json).
 */
import { KEYS } from "../src/cli/compat/llm-d-keys.ts";
import type { OptionRow } from "../src/cli/options/option.ts";
import { serveOptions } from "../src/cli/options/serve-options.ts";
import { camelCase, ENGINE_OPTIONS, NOT_HERE } from "../src/embed/options.ts";

/** Types of options whose placeholder in the help text does not determine the type. */
const TYPES: Readonly<Record<string, string>> = {
  "max-model-len": 'HumanNumber | "auto"',
  "ssl-cert-reqs": "0 | 2",
  "lora-modules": "readonly (string | LoraAdapter)[]",
  "allowed-origins": "readonly string[]",
  "allowed-methods": "readonly string[]",
  "allowed-headers": "readonly string[]",
  "override-generation-config": "GenerationConfig",
  "custom-histogram-buckets": "Readonly<Record<string, readonly number[]>>",
  "kv-events-config": "Readonly<Record<string, unknown>>",
  "fake-metrics": "Readonly<Record<string, unknown>>",
  "metrics-config": "readonly string[]",
};

const literals = (texts: readonly string[]) =>
  texts.map((text) => (/^\d+$/.test(text) ? `${text} | "${text}"` : `"${text}"`)).join(" | ");

function typeOf(name: string, { arity, metavar, accepts, read }: OptionRow): string {
  const fixedType = TYPES[name];
  if (fixedType !== undefined) return fixedType;
  if (arity === "toggle" || arity === "switch" || metavar === "BOOLEAN") return "boolean";
  const named = /^one or more of ([\w-]+(?:, [\w-]+)*)$/.exec(accepts)?.[1]?.split(", ");
  if (arity === "list")
    return named && read(named) !== undefined ? `readonly (${literals(named)})[]` : "readonly string[]";
  if (metavar === "N" || metavar === "X") return accepts.includes("also as") ? "HumanNumber" : "number";
  const choices = accepts.split(" or ");
  return choices.every((text) => /^[\w.-]+$/.test(text) && read([text]) !== undefined) ? literals(choices) : "string";
}

const LIST = "readonly (string | number)[]";

/** Replaces the names of flags in a text by the names of the same options in code. */
const inCode = (text: string) =>
  text.replace(/(--)?(?<![\w/-])([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?![\w/-]|\.\w)/g, (whole, dashes, name: string) =>
    dashes || (name.includes("-") && Object.hasOwn(serveOptions, name)) ? camelCase(name) : whole,
  );

function line(name: string, row: OptionRow): string {
  const about = inCode(`${row.about} Default: ${row.default}.`).replaceAll("*/", "*\\/");
  return `  /** ${about} */\n  readonly ${camelCase(name)}?: ${typeOf(name, row)} | undefined;\n`;
}

const rows = Object.entries(serveOptions) as [string, OptionRow][];
const isEngine = (name: string) => (ENGINE_OPTIONS as readonly string[]).includes(name);
const linesOf = (names: (name: string) => boolean) =>
  rows
    .filter(([name]) => names(name))
    .map(([name, row]) => line(name, row))
    .join("");

const foreign = Object.entries(KEYS)
  .filter(([name, { fate }]) => !Object.hasOwn(serveOptions, name) && name !== "v" && !("unsupported" in fate))
  .map(([name, { takes }]) => {
    const type =
      takes === "switch" || takes === "toggle" ? "boolean" : takes === "list" ? LIST : "string | number | boolean";
    return `  /** Only with compat: the option \`${name}\` of that stand-in, docs/how-to/migrating.md. */\n  readonly ${camelCase(name)}?: ${type} | undefined;\n`;
  })
  .join("");

const engineTypes = `/**
 * Options of an engine: flags of \`understudy serve\` in camel case. Written by
 * scripts/option-types.ts from the table of options, whose texts and defaults these are.
 */

/** A whole number, also as a text with vLLM's units: "8k" is 8000, "8K" 8192. */
export type HumanNumber = number | \`\${number}\${"" | "k" | "K" | "m" | "M" | "g" | "G" | "t" | "T"}\`;

/** Scheduler, KV cache, and how long steps take; docs/reference/options.md lists the flags. */
export interface EngineOptions {
${linesOf(isEngine)}}
`;

const serverTypes = `/**
 * Options of a server: the flags of \`understudy serve\` in camel case. Written by
 * scripts/option-types.ts from the table of options, whose texts and defaults these are.
 */
import type { EngineOptions, HumanNumber } from "./engine-option-types.ts";
import type { ForeignOptions } from "./foreign-option-types.ts";

/** A LoRA adapter; the path need not exist. */
export interface LoraAdapter {
  /** The name by which requests select the adapter. */
  readonly name: string;
  /** Path of the adapter. */
  readonly path: string;
  /** Parent in the list of models; default: the first served name. */
  readonly base_model_name?: string;
}

/** Sampling defaults, under vLLM's names. */
export interface GenerationConfig {
  /** Limit of output tokens, also for requests that ask for more. */
  readonly max_new_tokens?: number;
  /** From 0. */
  readonly temperature?: number;
  /** 0 to 1. */
  readonly top_p?: number;
  /** Number of tokens to choose from. 0 and -1 mean all tokens. */
  readonly top_k?: number;
  /** 0 to 1. */
  readonly min_p?: number;
  /** Above 0. 1 means no penalty. */
  readonly repetition_penalty?: number;
}

/** The flags of \`understudy serve\`. By default the server listens on a free port and prints no log. */
export interface ServerOptions extends EngineOptions, ForeignOptions {
${linesOf((name) => !isEngine(name) && !Object.hasOwn(NOT_HERE, name))}  /** vLLM's VLLM_SERVER_DEV_MODE: routes that pause, resume and reset caches. Default: false. */
  readonly devMode?: boolean | undefined;
}
`;

const foreignTypes = `/**
 * Flags of another stand-in that a server accepts with \`compat\`. Written by scripts/option-types.ts from the table in
 * src/cli/compat.
 */
export interface ForeignOptions {
${foreign}}
`;

export const files: Readonly<Record<string, string>> = {
  "engine-option-types": engineTypes,
  "option-types": serverTypes,
  "foreign-option-types": foreignTypes,
};

if (import.meta.main) {
  for (const [name, text] of Object.entries(files))
    await Bun.write(new URL(`../build/option-types/${name}.ts`, import.meta.url), text);
}
