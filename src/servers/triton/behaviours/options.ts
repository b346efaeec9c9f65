/** Parses a `behaviour.yaml`: `behaviour: NAME`, and `options:` of that behaviour. */
import { parse } from "yaml";

const isFlag = (value: unknown): value is boolean => typeof value === "boolean";
const isText = (value: unknown): value is string => typeof value === "string";
const isOf =
  <const T>(...all: readonly T[]) =>
  (value: unknown): value is T =>
    all.includes(value as T);

/** Options of behaviours, each with a function that reports whether a value is accepted. */
const KINDS = {
  /** True if a request may kill the model with `mode: kill`. */
  kill: isFlag,
  refuse_negative: isFlag,
  suffix: isText,
  ms: (value: unknown): value is number => typeof value === "number" && value >= 0,
  at: isOf("initialize", "execute"),
  error: isText,
  message: isText,
  model: isText,
  index: isFlag,
  part: isOf("preprocessing", "tensorrt_llm", "postprocessing"),
};

export type BehaviourOptions = {
  readonly [K in keyof typeof KINDS]?: (typeof KINDS)[K] extends (value: unknown) => value is infer T ? T : never;
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
