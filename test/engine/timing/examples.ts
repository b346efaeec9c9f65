/** Reads examples of step times from the presets' sources (examples.yaml). */
import { readFileSync } from "node:fs";
import { parse } from "yaml";

export interface Example {
  /** Step time by prompt tokens, without a prefix. */
  readonly prefillMs: Readonly<Record<string, number>>;
  /** Step time by "sequences x context each". */
  readonly decodeMs: Readonly<Record<string, number>>;
  /** Largest error of our form, as a share of the step. */
  readonly prefillError: number;
  readonly decodeError: number;
}

/** Examples by preset. */
export const examples: Readonly<Record<string, Example>> = parse(
  readFileSync(new URL("examples.yaml", import.meta.url), "utf8"),
);
