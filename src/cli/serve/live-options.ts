/** Changes options of a running server. Parses the new values by the table of options and builds the new configuration. */

import type { RunningConfig, ServeConfig } from "../../app/config/serve-config.ts";
import { LATENCIES, type Latencies, unsupportedKey } from "../compat/llm-d-live.ts";
import type { KeyInput } from "../compat/llm-d-timing.ts";
import type { UsageError } from "../options/given.ts";
import type { DestinationOf, MemberAt, Nowhere } from "../options/landing.ts";
import type { Option } from "../options/option.ts";
import { serveConfig } from "../options/serve-config.ts";
import { type OptionName, type ServeValues, serveOptions } from "../options/serve-options.ts";

const NAMES = [
  ...["timing", "jitter", "overhead-jitter", "jitter-tail", "slow-steps", "speed"],
  ...["limit-concurrency", "max-streams", "overload-status", "retry-after", "retry-after-form"],
  ...["max-num-queued-reqs", "max-num-queued-tokens", "fixtures"],
  ...["failure-injection-rate", "failure-types", "fault-rate", "fault-types"],
  ...["uvicorn-log-level", "disable-uvicorn-access-log", "enable-log-requests"],
] as const satisfies readonly OptionName[];

/** Options whose values are computed from the latency keys of `--compat`. */
const SET_BY_LATENCIES = ["timing", "jitter", "overhead-jitter", "kv-transfer-time"] as const;

/**
 * Names of the options whose value `RunningConfig` contains. That configuration never changes, so a running server could read
 * an outdated value from it.
 */
type Stale<Name extends OptionName> = {
  [N in Name]: MemberAt<RunningConfig, DestinationOf<(typeof serveOptions)[N]>> extends Nowhere ? never : N;
}[Name];

/**
 * Names of the options that may change while the server runs. Does not compile if `RunningConfig` contains the value of such an
 * option. To repair that, leave the member out of `KernelConfig`, and give the code that reads it a `LiveValue` of
 * `LiveSettings`.
 */
export const LIVE: [Stale<(typeof NAMES | typeof SET_BY_LATENCIES)[number]>] extends [never]
  ? readonly OptionName[]
  : Stale<(typeof NAMES | typeof SET_BY_LATENCIES)[number]> = NAMES;

export type LiveChange =
  /**
   * The new configuration. `keep` makes the new values the current ones; call it as soon as the server uses the configuration.
   */
  | { readonly config: ServeConfig; readonly keep: () => void }
  /** Error message, and the key of the wrong value. The key is null if several keys together caused the error. */
  | { readonly key: string | null; readonly message: string };

type ChangeInputs = Map<string, { name: string; texts: string[]; where: string; ignored: boolean }>;

export class LiveOptions {
  #values: ServeValues;
  #latencies: Latencies | undefined;

  /** `latencies`: the latency keys of `--compat`, which may change too. Undefined if the server runs without `--compat`. */
  constructor(values: ServeValues, latencies?: Latencies) {
    this.#values = values;
    this.#latencies = latencies;
  }

  /** Returns the current values by key, in the form that `changed` accepts. A value is null if it is the default. */
  read(): Record<string, unknown> {
    const own = Object.fromEntries(LIVE.map((name) => [name, this.#values[name] ?? null]));
    return { ...own, ...this.#latencies?.read(this.#values.timing) };
  }

  /**
   * Returns the configuration after these changes. A change to null restores the default. A key may contain `_` in place of
   * `-`.
   */
  changed(changes: Readonly<Record<string, unknown>>): LiveChange {
    const values: Record<string, unknown> = { ...this.#values };
    const said: ChangeInputs = new Map();
    const latencies = new Map<string, KeyInput | null>();
    for (const [key, value] of Object.entries(changes)) {
      const name = key.replaceAll("_", "-") as OptionName;
      const texts = value === null ? null : textsOf(value);
      if (this.#latencies && LATENCIES.includes(name)) {
        if (texts === undefined) return wrong(key, `${key}: takes a text or a number, not ${JSON.stringify(value)}`);
        latencies.set(name, texts && { texts, where: key });
        continue;
      }
      if (!LIVE.includes(name)) return wrong(key, `${key}: ${this.#whyNot(name)}`);
      if (texts === null) {
        delete values[name];
      } else {
        const option: Option = serveOptions[name];
        const read = texts && option.read(texts);
        if (read === undefined) return wrong(key, `${key}: takes ${option.accepts}, not ${JSON.stringify(value)}`);
        values[name] = read;
      }
      said.set(name, { name, texts: [], where: key, ignored: false });
    }
    const timed = this.#timed(latencies, values, said);
    if ("error" in timed) return wrong(keyIn(timed.error, changes) ?? keyOf(latencies), timed.error);
    const before = serveConfig(this.#values, new Map());
    const made = serveConfig(values as ServeValues, said);
    if ("error" in before) throw new Error(before.error);
    if ("error" in made) return wrong(keyIn(made.error, changes) ?? keyOf(latencies), made.error);
    const untimed = (config: ServeConfig) => config.engine.timing.kind === "none";
    if (untimed(before.config) !== untimed(made.config))
      return wrong(keyOf(latencies) ?? "timing", "timing: cannot change from or to none while the server runs");
    return {
      config: made.config,
      keep: () => {
        this.#values = values as ServeValues;
        this.#latencies = timed.latencies;
      },
    };
  }

  /** Stores in `values` the timing that results from changed latencies, as the start of the server does. */
  #timed(
    changes: ReadonlyMap<string, KeyInput | null>,
    values: Record<string, unknown>,
    said: ChangeInputs,
  ): { readonly latencies: Latencies | undefined } | UsageError {
    if (this.#latencies === undefined || changes.size === 0) return { latencies: this.#latencies };
    const twice = SET_BY_LATENCIES.find((name) => said.has(name));
    if (twice !== undefined)
      return { error: `${said.get(twice)!.where}: cannot change together with ${keyOf(changes)}, which sets it` };
    const made = this.#latencies.with(changes, this.#values.timing);
    if ("error" in made) return made;
    const { timing, where, spread } = made.timing;
    const texts = { ...spread, timing: [timing, where] as const };
    for (const name of SET_BY_LATENCIES) {
      delete values[name];
      if (!(name in texts)) continue;
      const [text, from] = texts[name as keyof typeof texts]!;
      values[name] = serveOptions[name].read([text]);
      said.set(name, { name, texts: [], where: from, ignored: false });
    }
    return { latencies: made.latencies };
  }

  #whyNot(name: string): string {
    const unsupported = this.#latencies && unsupportedKey(name);
    if (unsupported) return `not supported; ${unsupported}`;
    const these = [...LIVE, ...(this.#latencies ? LATENCIES : [])];
    return `cannot change while the server runs; these can: ${these.join(", ")}`;
  }
}

/** Returns the first changed latency key, in the spelling of the user. Returns null if no latency key changed. */
const keyOf = (changes: ReadonlyMap<string, KeyInput | null>): string | null => {
  const [first] = changes;
  return first === undefined ? null : (first[1]?.where ?? first[0]);
};

const wrong = (key: string | null, message: string): LiveChange => ({ key, message });

/** Returns the key that an error message begins with, or null if the message begins with no key. */
const keyIn = (message: string, changes: object): string | null =>
  Object.keys(changes).find((key) => message.startsWith(`${key}:`)) ?? null;

function textsOf(value: unknown): string[] | undefined {
  const items: unknown[] = Array.isArray(value) ? value : [value];
  const texts = items.filter((item) => ["string", "number", "boolean"].includes(typeof item)).map(String);
  return texts.length === items.length && texts.length > 0 ? texts : undefined;
}
