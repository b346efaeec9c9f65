/** Which options may change while the server runs, and what would the configuration be then? Read by the table of all options. */
import type { ServeConfig } from "../config/types.ts";
import type { Option } from "./option.ts";
import { type OptionName, serveOptions, type Values } from "./options.ts";
import { serveConfig } from "./serve-config.ts";

export const LIVE = [
  ...["timing", "jitter", "overhead-jitter", "jitter-tail", "slow-steps", "speed"],
  ...["limit-concurrency", "max-streams", "overload-status", "retry-after", "retry-after-form"],
  ...["max-num-queued-reqs", "max-num-queued-tokens", "fixtures"],
  ...["failure-injection-rate", "failure-types"],
  ...["uvicorn-log-level", "disable-uvicorn-access-log", "enable-log-requests"],
] as OptionName[];

export type Changed =
  | { readonly config: ServeConfig /** They hold from now on. */; readonly keep: () => void }
  | { readonly key: string | null; readonly message: string };

export class LiveOptions {
  #values: Values;

  constructor(values: Values) {
    this.#values = values;
  }

  /** What was said of them, in the form that changes take; null: nothing, so their default holds. */
  read(): Record<string, unknown> {
    return Object.fromEntries(LIVE.map((name) => [name, this.#values[name] ?? null]));
  }

  /** The configuration with these changes; null as a value is the default. Keys may have `_` for `-`. */
  changed(changes: Readonly<Record<string, unknown>>): Changed {
    const values: Record<string, unknown> = { ...this.#values };
    const said = new Map<string, { name: string; texts: string[]; where: string; ignored: boolean }>();
    for (const [key, value] of Object.entries(changes)) {
      const name = key.replaceAll("_", "-") as OptionName;
      if (!LIVE.includes(name))
        return wrong(key, `${key}: cannot change in a server that runs; these can: ${LIVE.join(", ")}`);
      if (value === null) {
        delete values[name];
      } else {
        const option: Option = serveOptions[name];
        const texts = textsOf(value);
        const read = texts && option.read(texts);
        if (read === undefined) return wrong(key, `${key}: takes ${option.accepts}, not ${JSON.stringify(value)}`);
        values[name] = read;
      }
      said.set(name, { name, texts: [], where: key, ignored: false });
    }
    const before = serveConfig(this.#values, new Map());
    const made = serveConfig(values as Values, said);
    if ("error" in before) throw new Error(before.error);
    if ("error" in made) return wrong(keyIn(made.error, changes), made.error);
    const untimed = (config: ServeConfig) => config.engine.timing.kind === "none";
    if (untimed(before.config) !== untimed(made.config))
      return wrong("timing", "timing: steps without times cannot get them in a server that runs, nor lose them");
    return {
      config: made.config,
      keep: () => {
        this.#values = values as Values;
      },
    };
  }
}

const wrong = (key: string | null, message: string): Changed => ({ key, message });

/** A message begins with the place of what is wrong. */
const keyIn = (message: string, changes: object): string | null =>
  Object.keys(changes).find((key) => message.startsWith(`${key}:`)) ?? null;

function textsOf(value: unknown): string[] | undefined {
  const items: unknown[] = Array.isArray(value) ? value : [value];
  const texts = items.filter((item) => ["string", "number", "boolean"].includes(typeof item)).map(String);
  return texts.length === items.length && texts.length > 0 ? texts : undefined;
}
