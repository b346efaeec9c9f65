/**
 * Prints the configuration of a server as YAML, for `serve --print-config`. `--config` reads the text back to the same
 * configuration. An option that the user did not set is a key only if the configuration is the same with the key. Otherwise it
 * is a comment with its default, because some options cannot stand next to others.
 */

import { stringify } from "yaml";
import { version } from "../../../package.json";
import type { ServeConfig } from "../../app/config/serve-config.ts";
import { LLM_D } from "../compat/llm-d.ts";
import type { Latencies } from "../compat/llm-d-live.ts";
import type { Environment } from "../options/environment.ts";
import type { OptionInput } from "../options/given.ts";
import type { LandingRow } from "../options/landing.ts";
import { MASK, type ResolvedOptions } from "./resolve.ts";

/** Options that are about this call of the command, not about the server. */
const OF_THE_CALL = ["config", "print-config", "compat"];

/** Variables of vLLM that change the server and that no option stands for. */
const VLLM_VARIABLES = ["VLLM_SERVER_DEV_MODE", "VLLM_ALLOW_RUNTIME_LORA_UPDATING"];

interface PrintableServer {
  readonly config: ServeConfig;
  readonly ignored: readonly string[];
  readonly options: ResolvedOptions;
  /** Latency keys of `--compat`. Absent without `--compat`. */
  readonly latencies?: Latencies;
}

/** Returns the YAML. `env`: the environment from which the options were read. */
export function printableConfig({ config, ignored, options, latencies }: PrintableServer, env: Environment): string {
  const { rows } = options;
  const effective = withDefaults(options);
  const lines = [
    `# Configuration of understudy serve ${version}. A key after # keeps the default that the line shows.`,
  ];
  if (latencies !== undefined) lines.push(`# --compat ${LLM_D} also changes behavior that has no key.`);
  for (const name of VLLM_VARIABLES.filter((name) => env[name])) lines.push(`# ${name} is set, which has no key.`);
  if (ignored.length > 0) lines.push(`# Accepted without effect: ${ignored.join(" ")}`);
  if (!Object.hasOwn(rows, "role")) lines.push("", keyText("role", config.role));
  for (const [group, members] of Map.groupBy(Object.entries(rows), ([, row]) => row.group)) {
    lines.push("", `# ${group}`);
    for (const [name, row] of members) {
      const texts = effective.get(name);
      if (OF_THE_CALL.includes(name)) continue;
      lines.push(texts ? keyText(name, keyValue(row, texts)) : `# ${name}: ${shownDefault(row, config)}`);
    }
  }
  return lines.join("\n");
}

/** Returns the texts of all options that can be keys: those that the user set, and defaults that change nothing. */
function withDefaults({ rows, inputs, rebuild }: ResolvedOptions): ReadonlyMap<string, readonly string[]> {
  const wanted = rebuild(inputs);
  if ("error" in wanted) throw new Error(wanted.error);
  const { config, notices, ignored } = wanted;
  let all = inputs;
  for (const [name, row] of Object.entries(rows)) {
    const texts = inputs.has(name) ? null : defaultTexts(row, config);
    if (texts === null) continue;
    const input: OptionInput = { name, texts, where: name, ignored: false };
    const more = new Map(all).set(name, input);
    const made = rebuild(more);
    if ("error" in made || !Bun.deepEquals([made.config, made.notices, made.ignored], [config, notices, ignored]))
      continue;
    all = more;
  }
  return new Map([...all].map(([name, { texts }]) => [name, texts]));
}

/** Returns the texts that set the value which the option has by default, or null if no text does. */
function defaultTexts(row: LandingRow, config: ServeConfig) {
  const { outside, default: written, read } = row;
  if (outside !== undefined) return null;
  // The default of an option that accepts any text is described in words.
  const byWords = read([ANY_TEXT]) === undefined ? [written] : null;
  const texts = memberTexts(row, config) ?? byWords;
  return texts === null || read(texts) === undefined ? null : texts;
}

/** Text that only options accept which accept any text. */
const ANY_TEXT = "\u0001";

const shownDefault = (row: LandingRow, config: ServeConfig) => memberTexts(row, config)?.join(" ") ?? row.default;

/** Returns the value of the configuration that the option sets as texts. Returns null if it has no texts. */
const memberTexts = ({ lands, as }: LandingRow, config: ServeConfig) =>
  lands === undefined || as !== undefined ? null : textsOf(memberAt(config, lands));

const memberAt = (config: object, path: string): unknown =>
  path
    .split(".")
    .reduce<unknown>((member, name) => (member as Record<string, unknown> | undefined | null)?.[name], config);

function textsOf(member: unknown): readonly string[] | null {
  const items: unknown[] = Array.isArray(member) ? member : [member];
  const texts = items.filter((item) => ["string", "number", "boolean"].includes(typeof item)).map(String);
  return texts.length === items.length && texts.length > 0 ? texts : null;
}

/** Returns the value of a key. A secret is masked. */
function keyValue({ arity, metavar, secret }: LandingRow, texts: readonly string[]): unknown {
  const isTruth = arity === "toggle" || arity === "switch" || metavar === "BOOLEAN";
  const values = texts.map((text) => (secret ? MASK : scalarOf(text, isTruth)));
  return arity === "list" ? values : values[0];
}

/** Returns a number or a truth value if YAML spells it like the text, else the text. */
function scalarOf(text: string, isTruth: boolean): string | number | boolean {
  if (isTruth && (text === "true" || text === "false")) return text === "true";
  return String(Number(text)) === text && /^-?[\d.]+$/.test(text) ? Number(text) : text;
}

const keyText = (name: string, value: unknown): string => stringify({ [name]: value }, { lineWidth: 0 }).trimEnd();
