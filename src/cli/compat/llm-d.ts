/**
 * `serve --compat llm-d-inference-sim`: translates the simulator's flags, environment variables and YAML file into our options.
 * As in the simulator, flags win over the environment, and the environment wins over the file. Our own options are accepted
 * too.
 */
import { parsedJson } from "../../base/json-object.ts";
import type { Environment } from "../options/environment.ts";
import { type Flags, parseFlags } from "../options/flags.ts";
import { type OptionInput, optionInput, type UsageError, wrongValue } from "../options/given.ts";
import { lookup } from "../options/lookup.ts";
import { splitAtEquals } from "../options/option.ts";
import { compatEvents } from "./llm-d-events.ts";
import { KEYS, keyOf } from "./llm-d-keys.ts";
import { Latencies } from "./llm-d-live.ts";
import { compatTiming, durationOf, type KeyInput, orError, unreadable } from "./llm-d-timing.ts";
import { compatTools } from "./llm-d-tools.ts";
import { fromYaml } from "./llm-d-yaml.ts";

export const LLM_D = "llm-d-inference-sim";

/** Defaults of llm-d-inference-sim that differ from ours, by the name of our option. */
const DEFAULTS: Readonly<Record<string, string>> = {
  host: "0.0.0.0",
  "max-model-len": "1024",
  "max-num-seqs": "5",
  "max-body-mb": "4",
  "enable-lora": "true",
  "embedding-dimensions": "384",
  "disable-uvicorn-access-log": "true",
  // The simulator answers with tool calls even if no flag turns them on.
  "enable-auto-tool-choice": "true",
  "tool-call-parser": "hermes",
};
const WAITING = 1000;
/** Lowest value of the simulator's option `v` at which requests are logged. */
const DEBUG = 4;
const CACHE_BLOCKS = 1024;
const OWN = "a default of llm-d-inference-sim";

export interface CompatOptions {
  readonly flags: Flags;
  readonly defaults: readonly OptionInput[];
  /** Time in microseconds from the start until `/health/ready` reports that the server is ready. */
  readonly startupUs: number;
  readonly latencies: Latencies;
  /** Differences between this server and the simulator, one line each. */
  readonly notices: readonly string[];
}

type KeyInputs = Map<string, KeyInput>;

/** Translates the options. `argv`: the arguments without `--compat`. Reads only the file of `--config`. */
export function fromLlmD(
  argv: readonly string[],
  env: Environment,
  readFile: (path: string) => string,
): CompatOptions | UsageError {
  const read = readArgv(argv);
  if ("error" in read) return read;
  const rest = parseFlags(read.rest);
  if ("error" in rest) return rest;
  if (rest.help !== undefined)
    return { flags: rest, defaults: [], startupUs: 0, latencies: new Latencies(new Map(), 1), notices: [] };
  const file = fromYaml(read.config, readFile);
  if ("error" in file) return file;
  const said: KeyInputs = new Map([...file.said, ...fromEnv(env), ...read.said]);
  return orError(() => translate(said, { ...rest, given: [...file.ours, ...rest.given] }, env));
}

function translate(said: KeyInputs, rest: Flags, env: Environment): CompatOptions {
  const options: OptionInput[] = [];
  const notices: string[] = [];
  for (const [name, { texts, where }] of said) {
    const { fate, takes } = KEYS[name]!;
    // An empty list leaves the option at its default.
    if (takes === "list" && texts.length === 0) continue;
    if ("as" in fate) options.push(optionInput(lookup(fate.as)!, texts, where));
    else if ("differs" in fate && meant(texts)) notices.push(`${where}: ${fate.differs}`);
    else if ("unsupported" in fate && meant(texts)) notices.push(`${where}: not supported; ${fate.unsupported}`);
  }
  const asked = (key: string) => said.get(key);
  // As a flag, because PYTHONHASHSEED must not win. An empty seed is none.
  const seed = asked("hash-seed");
  if (seed !== undefined && seed.texts.join("") !== "")
    options.push(optionInput(lookup("kv-events-hash-seed")!, seed.texts, seed.where));
  const seqs = Number(asked("max-num-seqs")?.texts[0] ?? DEFAULTS["max-num-seqs"]);
  const ranks = ranksOf(asked);
  const timing = compatTiming(asked, seqs);
  const startupUs = durationOf(asked("startup-duration"));
  const tools = compatTools(asked, OWN);
  const hasCache = isOn(asked("enable-kvcache"));
  const threshold = thresholdOf(asked("global-cache-hit-threshold"), hasCache);
  const waiting = countOf(asked("max-waiting-queue-length"), WAITING);
  const blocks = countOf(asked("kv-cache-size"), CACHE_BLOCKS);
  const answers = answersOf(asked("mode"));
  const shaped: Record<string, readonly [text: string, where: string]> = {
    timing: [timing.timing, timing.where],
    ...timing.spread,
    ...tools,
    ...compatEvents(asked, env, OWN),
    ...(Number.isInteger(seqs * ranks.value)
      ? {
          "limit-concurrency": [String((seqs + waiting.value) * ranks.value), waiting.where] as const,
          "overload-status": ["429", waiting.where] as const,
        }
      : {}),
    "data-parallel-size": [String(ranks.value), ranks.where],
    // Add one block for vLLM's null block, which holds no tokens.
    ...(hasCache ? { "num-gpu-blocks-override": [String(blocks.value + 1), blocks.where] as const } : {}),
    // Set the threshold even if it is 0, because a request's own threshold has an effect only if the option is set.
    "cache-hit-threshold": [threshold.value, threshold.where],
    answers: [answers.value, answers.where],
    ...fakesOf(asked("fake-metrics"), asked("fake-metrics-refresh-interval")),
    ...(Number(asked("v")?.texts[0]) >= DEBUG ? { "enable-log-requests": ["true", asked("v")!.where] as const } : {}),
    ...(isOn(asked("log-http")) ? { "disable-uvicorn-access-log": ["false", "--log-http"] as const } : {}),
  };
  const own = Object.entries(DEFAULTS).map(([name, text]) => optionInput(lookup(name)!, [text], OWN));
  const made = Object.entries(shaped).map(([name, [text, where]]) => optionInput(lookup(name)!, [text], where));
  return {
    flags: { ...rest, given: [...options, ...rest.given] },
    defaults: [...own, ...made],
    startupUs,
    latencies: new Latencies(said, seqs),
    notices: [...notices, ...(ranks.value > 1 ? [onOnePort(ranks)] : []), ...timing.notices],
  };
}

/** Parses the simulator's flags. `rest`: the arguments that are not flags of the simulator; they may be options of ours. */
function readArgv(argv: readonly string[]): { said: KeyInputs; config: KeyInput | null; rest: string[] } | UsageError {
  const said: KeyInputs = new Map();
  const rest: string[] = [];
  let config: KeyInput | null = null;
  for (let at = 0; at < argv.length; ) {
    const token = argv[at++]!;
    const [written, attached] = split(token);
    const name = written.replace(/^--?/, "");
    const found = written.startsWith("-") ? keyOf(name) : undefined;
    const next = argv.findIndex((word, index) => index >= at && /^--?[a-z]/i.test(word));
    const following = argv.slice(at, next < 0 ? argv.length : next);
    if (written === "--config") {
      const path = attached ?? following[0];
      if (path === undefined) return { error: "--config: needs a value: the path of a YAML file" };
      config = { texts: [path], where: "--config" };
      at += attached === undefined ? 1 : 0;
    } else if (found === undefined) {
      rest.push(token);
    } else if (found.key.takes === "switch" || found.key.takes === "toggle") {
      const text = attached ?? "true";
      if (text !== "true" && text !== "false") return wrongValue(written, "true or false", text);
      said.set(found.name, { texts: [String((text === "true") === found.sets)], where: written });
    } else {
      const texts =
        attached !== undefined ? [attached] : found.key.takes === "list" ? following : following.slice(0, 1);
      if (texts.length === 0 && found.key.takes === "value") return { error: `${written}: needs a value` };
      said.set(found.name, { texts, where: written });
      at += attached === undefined ? texts.length : 0;
    }
  }
  return { said, config, rest };
}

/** Reads the simulator's environment variables. Ignores the variables with the name of the pod, which `resolve.ts` reads. */
function fromEnv(env: Environment): [string, KeyInput][] {
  return env.SIM_MODEL ? [["model", { texts: [env.SIM_MODEL], where: "SIM_MODEL" }]] : [];
}

function split(token: string): [string, string | undefined] {
  return token.startsWith("-") ? splitAtEquals(token) : [token, undefined];
}

/** Reports whether the values turn an option on: a value is not false, zero or empty. */
const meant = (texts: readonly string[]): boolean =>
  texts.some((text) => text !== "false" && text !== "" && !/^0(\.0+)?(ns|us|ms|s|m|h)?$/.test(text));
const isOn = (said: KeyInput | undefined): boolean => said?.texts[0] === "true";

interface ValueWithPlace<T> {
  readonly value: T;
  readonly where: string;
}

function countOf(said: KeyInput | undefined, otherwise: number): ValueWithPlace<number> {
  if (said === undefined) return { value: otherwise, where: OWN };
  const [text = ""] = said.texts;
  if (!(/^\d{1,9}$/.test(text) && Number(text) > 0)) unreadable(said.where, "a whole number of at least 1", text);
  return { value: Number(text), where: said.where };
}

/** Returns the hit threshold. Without a KV cache returns 0, because the simulator then looks up no prefix. */
function thresholdOf(said: KeyInput | undefined, hasCache: boolean): ValueWithPlace<string> {
  if (said === undefined) return { value: "0", where: OWN };
  const text = said.texts.join(" ");
  if (!(text !== "" && Number(text) >= 0 && Number(text) <= 1)) unreadable(said.where, "a number from 0 to 1", text);
  return { value: hasCache ? text : "0", where: said.where };
}

/** Returns the number of engines. If data-parallel-rank is set, the process is a single engine. */
function ranksOf(asked: (key: string) => KeyInput | undefined): ValueWithPlace<number> {
  const [rank, size] = [asked("data-parallel-rank"), asked("data-parallel-size")];
  const [text = ""] = rank?.texts ?? ["-1"];
  if (!/^(-1|\d{1,4})$/.test(text)) unreadable(rank!.where, "a whole number from -1", text);
  return text === "-1" ? countOf(size, 1) : { value: 1, where: rank!.where };
}

/**
 * Joins the two keys about fake metrics into a value of --fake-metrics. Malformed JSON stays as it is, so that the option
 * --fake-metrics refuses it.
 */
function fakesOf(said: KeyInput | undefined, every: KeyInput | undefined): Record<string, readonly [string, string]> {
  if (said === undefined) return {};
  const text = said.texts.join(" ");
  const fakes = parsedJson(text) as object | undefined;
  if (every === undefined || fakes === undefined) return { "fake-metrics": [text, said.where] };
  const whole = { ...fakes, "refresh-interval": every.texts.join(" ") };
  return { "fake-metrics": [JSON.stringify(whole), said.where] };
}

const onOnePort = ({ where, value }: { readonly where: string; readonly value: number }) =>
  `${where}: the ${value} ranks share one port; the header X-data-parallel-rank chooses one`;

function answersOf(said: KeyInput | undefined): ValueWithPlace<string> {
  const [mode = "random"] = said?.texts ?? [];
  if (mode !== "random" && mode !== "echo") unreadable(said!.where, "random or echo", mode);
  return { value: mode === "echo" ? "echo" : "prose", where: said?.where ?? OWN };
}
