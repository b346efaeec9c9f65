/** Translates the tool call keys of llm-d-inference-sim into `--tool-arguments` and `--tool-call-share`. */
import { parseToolHabits } from "../../text/grammar/tool-habits.ts";
import { type KeyInput, unreadable } from "./llm-d-timing.ts";

interface Habit {
  readonly takes: string;
  /** Keys of the simulator, with the default of each. */
  readonly keys: Readonly<Record<string, string>>;
}

const RANGES: Readonly<Record<string, Habit>> = {
  integers: {
    takes: "whole numbers, the least of them first",
    keys: { "min-tool-call-integer-param": "0", "max-tool-call-integer-param": "100" },
  },
  numbers: {
    takes: "numbers, the least of them first",
    keys: { "min-tool-call-number-param": "0", "max-tool-call-number-param": "100" },
  },
  items: {
    takes: "whole numbers from 0 to 100, the least of them first",
    keys: { "min-tool-call-array-param-length": "1", "max-tool-call-array-param-length": "5" },
  },
};
const EXTRA = "tool-call-extra-call-probability";
/** Keys whose values are percentages, with the habit that each sets. */
const SHARES: Readonly<Record<string, Habit>> = {
  optional: { takes: "a number from 0 to 100", keys: { "tool-call-not-required-param-probability": "50" } },
  inner: { takes: "a number from 0 to 100", keys: { "object-tool-call-not-required-field-probability": "50" } },
  another: { takes: "a number from 0 to 100", keys: { [EXTRA]: "45" } },
};

/** Returns the values of our options, each with its place. `own`: place to report for defaults. Throws `InvalidValue`. */
export function compatTools(asked: (key: string) => KeyInput | undefined, own: string) {
  const parts: string[] = [];
  let where = own;
  for (const [name, { takes, keys }] of Object.entries({ ...RANGES, ...SHARES })) {
    const texts = Object.entries(keys).map(([key, otherwise]) => asked(key)?.texts.join(" ") ?? otherwise);
    const values = name in SHARES ? texts.map((text) => String(percent(text))) : texts;
    const said = Object.keys(keys).find((key) => asked(key) !== undefined);
    if (said !== undefined) where = asked(said)!.where;
    parts.push(`${name}=${values.join(":")}`);
    if (parseToolHabits(parts.at(-1)!) === undefined) unreadable(where, takes, texts.join(" "));
  }
  const extra = percent(asked(EXTRA)?.texts.join(" ") ?? SHARES.another!.keys[EXTRA]!);
  return {
    "tool-arguments": [parts.join(","), where],
    // The simulator treats the first optional call like an additional call.
    "tool-call-share": [String(extra), asked(EXTRA)?.where ?? own],
  } as const;
}

const percent = (text: string): number => (/^\d+(\.\d+)?$/.test(text) ? Number(text) / 100 : Number.NaN);
