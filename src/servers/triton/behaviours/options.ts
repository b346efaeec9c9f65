/** Parses a `behaviour.yaml`: `behaviour: NAME`, and `options:` of that behaviour. */
import { parse } from "yaml";

export interface BehaviourOptions {
  /** True if a request may kill the model with `mode: kill`. */
  readonly kill?: boolean;
  readonly refuse_negative?: boolean;
  readonly suffix?: string;
  readonly ms?: number;
  readonly at?: "initialize" | "execute";
  readonly error?: string;
  readonly message?: string;
  readonly model?: string;
  readonly index?: boolean;
  readonly part?: "preprocessing" | "tensorrt_llm" | "postprocessing";
}

const KINDS: Readonly<Record<keyof BehaviourOptions, (value: unknown) => boolean>> = {
  kill: (value) => typeof value === "boolean",
  refuse_negative: (value) => typeof value === "boolean",
  suffix: (value) => typeof value === "string",
  ms: (value) => typeof value === "number" && value >= 0,
  at: (value) => value === "initialize" || value === "execute",
  error: (value) => typeof value === "string",
  message: (value) => typeof value === "string",
  model: (value) => typeof value === "string",
  index: (value) => typeof value === "boolean",
  part: (value) => value === "preprocessing" || value === "tensorrt_llm" || value === "postprocessing",
};

/** Parses the file. `names`: the built-in behaviours. Throws an Error that says what is wrong and what is accepted. */
export function readBehaviourFile(text: string, names: readonly string[]): { name: string; options: BehaviourOptions } {
  const read: unknown = parse(text);
  if (typeof read !== "object" || read === null) throw new Error("must contain behaviour: NAME");
  const { behaviour, options = {}, ...more } = read as Record<string, unknown>;
  const [other] = Object.keys(more);
  if (other !== undefined) throw new Error(`${other}: behaviour and options are accepted`);
  if (typeof behaviour !== "string" || !names.includes(behaviour))
    throw new Error(`behaviour: ${String(behaviour)}: ${names.join(", ")} are accepted`);
  if (typeof options !== "object" || options === null) throw new Error("options: names with values are accepted");
  for (const [name, value] of Object.entries(options)) {
    const fits = KINDS[name as keyof BehaviourOptions];
    if (fits === undefined) throw new Error(`options: ${name}: ${Object.keys(KINDS).join(", ")} are accepted`);
    if (!fits(value)) throw new Error(`options: ${name}: not ${JSON.stringify(value)}`);
  }
  return { name: behaviour, options };
}
