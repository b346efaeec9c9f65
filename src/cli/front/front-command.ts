/**
 * Completes the command of a front end of vLLM, so that it waits for a foreign engine, and derives the options of the engine
 * from it. Flags as in vLLM 0.33: `vllm-rs serve` and `vllm serve`.
 */
import { existsSync } from "node:fs";
import type { UsageError } from "../options/given.ts";

/** A command that is complete, and what follows from it for the engine. */
export interface FrontCommand {
  /** The command with the flags that were missing. */
  readonly command: readonly string[];
  /** URL of the front end's HTTP server. */
  readonly url: string;
  /** Options of the engine by their names, where the user has not set them. */
  readonly engine: Readonly<Record<string, string>>;
}

/** Free ports for flags that the user left out. */
export interface FreePorts {
  readonly rpc: number;
  /** HTTP port. Null: the front end's own default. */
  readonly http: number | null;
}

const RPC_PORT = "data-parallel-rpc-port";
const ADDRESS = "data-parallel-address";
const LOCAL = "data-parallel-size-local";
const SIZE = "data-parallel-size";
const SHORT: Readonly<Record<string, string>> = { "-dpa": ADDRESS, "-dpl": LOCAL, "-dpp": RPC_PORT, "-dp": SIZE };
const LOOPBACK = "127.0.0.1";
const DEFAULT_PORT = 8000;
/** Options of the front end that the engine needs, too. */
const SHARED = [SIZE, "max-model-len"];

/** Returns the values of flags by their names. A flag without a value has "". The last of several wins. */
export function flagsIn(argv: readonly string[]): ReadonlyMap<string, string> {
  const flags = new Map<string, string>();
  for (const [at, word] of argv.entries()) {
    const equals = word.indexOf("=");
    const written = equals < 0 ? word : word.slice(0, equals);
    const name = SHORT[written] ?? (written.startsWith("--") ? written.slice(2).replaceAll("_", "-") : undefined);
    if (name === undefined) continue;
    const next = argv[at + 1] ?? "";
    flags.set(name, equals >= 0 ? word.slice(equals + 1) : next.startsWith("-") ? "" : next);
  }
  return flags;
}

/** `ofEngine`: flags of the engine that the user set. Returns an error for flags that contradict a foreign engine. */
export function frontCommand(
  given: readonly string[],
  ofEngine: ReadonlyMap<string, string>,
  ports: FreePorts,
): FrontCommand | UsageError {
  const flags = flagsIn(given);
  const local = flags.get(LOCAL);
  if (local !== undefined && Number(local) !== 0)
    return { error: `--${LOCAL} ${local}: must be 0 or left out after --, because Understudy is the engine` };
  for (const name of [RPC_PORT, ADDRESS]) {
    const [theirs, ours] = [flags.get(name), ofEngine.get(name)];
    if (theirs !== undefined && ours !== undefined && theirs !== ours)
      return { error: `--${name}: is ${ours} before -- and ${theirs} after it; give it once` };
  }
  const rpcPort = flags.get(RPC_PORT) ?? ofEngine.get(RPC_PORT) ?? `${ports.rpc}`;
  const address = flags.get(ADDRESS) ?? ofEngine.get(ADDRESS) ?? LOOPBACK;
  const port = flags.get("port") ?? `${ports.http ?? DEFAULT_PORT}`;
  const missing: [name: string, value: string][] = [
    [LOCAL, "0"],
    [ADDRESS, address],
    [RPC_PORT, rpcPort],
    ...(ports.http === null ? [] : [["host", LOOPBACK] as [string, string], ["port", port] as [string, string]]),
  ];
  const added = missing.filter(([name]) => !flags.has(name)).flatMap(([name, value]) => [`--${name}`, value]);
  const host = flags.get("host") ?? LOOPBACK;
  const reachable = host === "0.0.0.0" || host === "::" ? LOOPBACK : host;
  const scheme = flags.has("ssl-certfile") ? "https" : "http";
  return {
    command: [...given, ...added],
    url: `${scheme}://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`,
    engine: without(ofEngine, { [RPC_PORT]: rpcPort, [ADDRESS]: address, ...ofModel(given, flags) }),
  };
}

/** Returns the options that follow from the front end's model. Only a folder of this machine has a tokenizer to read. */
function ofModel(given: readonly string[], flags: ReadonlyMap<string, string>): Record<string, string> {
  const options: Record<string, string> = {};
  for (const name of SHARED) if (flags.has(name)) options[name] = flags.get(name)!;
  const positional = given[given.indexOf("serve") + 1];
  const model =
    flags.get("model") ?? (given.includes("serve") && !positional?.startsWith("-") ? positional : undefined);
  const name = flags.get("served-model-name") ?? model;
  const tokenizer = flags.get("tokenizer") ?? model;
  if (name) options["served-model-name"] = name;
  if (tokenizer && existsSync(tokenizer)) options.tokenizer = tokenizer;
  return options;
}

const without = (flags: ReadonlyMap<string, string>, options: Record<string, string>) =>
  Object.fromEntries(Object.entries(options).filter(([name]) => !flags.has(name)));
