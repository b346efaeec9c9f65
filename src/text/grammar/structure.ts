/**
 * Writes answers that must fit a constraint: a schema, an expression, a choice, a grammar, tags or tool calls. The text of a seed
 * is written as a whole in the encoder's thread, before the request reaches the engine.
 */
import { BrokenStructure } from "./broken.ts";
import { type CallPlan, writeCalls } from "./calls.ts";
import { Draws } from "./draws.ts";
import { drawGrammar, isGbnf, readGbnf } from "./grammar.ts";
import { readLark } from "./lark.ts";
import { BrokenPattern, Pattern } from "./pattern.ts";
import { isPromptedCall, type PromptedJson, promptedWriter } from "./prompted-json.ts";
import { mistakeText, regexMistake } from "./rust-regex.ts";
import { Unsatisfiable } from "./schema.ts";
import { readSchema } from "./schema-mistakes.ts";
import { ANY_OBJECT, schemaText } from "./schema-text.ts";
import { tagWriter } from "./tags.ts";
import { isTooDeep, limited, TooMuchWork } from "./work.ts";

/** A constraint. Schemas are JSON texts, because they are sent to another thread and rarely read before. */
export type Structure =
  | { readonly kind: "json"; readonly schema: string }
  | { readonly kind: "object" }
  | { readonly kind: "regex"; readonly pattern: string }
  | { readonly kind: "choice"; readonly choices: readonly string[] }
  | { readonly kind: "grammar"; readonly grammar: string }
  | { readonly kind: "tags"; readonly tags: string }
  | { readonly kind: "calls"; readonly plans: readonly CallPlan[] }
  | PromptedJson;

/** Returns the text of the choice at `index`, from its seed. Returns null if the choice has no constraint. */
export type Writer = (seed: number, index: number) => string | null;

/** Returns the writer for a constraint. It and its writer throw `BrokenStructure`. */
export function writerOf(structure: Structure): Writer {
  const draw = explainErrors(() => drawerOf(structure));
  return (seed, index) => explainErrors(() => draw(new Draws(seed), index));
}

function drawerOf(structure: Structure): (draws: Draws, index: number) => string | null {
  switch (structure.kind) {
    case "json": {
      const schema = readSchema(structure.schema);
      return (draws) => schemaText(schema, draws);
    }
    case "object":
      return (draws) => schemaText(ANY_OBJECT, draws);
    case "regex":
      return regexDrawer(structure.pattern);
    case "choice":
      return (draws) => draws.pick(structure.choices);
    case "grammar": {
      const { grammar } = structure;
      const read = isGbnf(grammar) ? readGbnf(grammar) : readLark(grammar);
      return (draws) => drawGrammar(read, draws);
    }
    case "tags":
      // Any value would fit, but `vllm-rs` 0.33.0 sends `true` for the arguments of a tool that is not strict: an object.
      return tagWriter(structure.tags, (schema, draws) => schemaText(schema === true ? ANY_OBJECT : schema, draws));
    case "calls":
      return (draws, index) => writeCalls(structure.plans[index]!, draws);
    case "prompted":
      return promptedWriter(structure);
  }
}

/** Reports whether special tokens in the text become IDs: in markup of calls and tags only, as values may repeat a prompt. */
export function allowsSpecial({ kind }: Structure, text: string): boolean {
  return kind === "calls" || kind === "tags" || (kind === "prompted" && isPromptedCall(text));
}

function regexDrawer(source: string): (draws: Draws) => string {
  const found = regexMistake(source);
  if (found !== null) {
    const escaped = source.replaceAll("\\", "\\\\").replaceAll('"', '\\"');
    const why =
      found.lookaround === undefined
        ? mistakeText(source, found)
        : `lookarounds not supported yet; ${found.lookaround} in regex /${source}/`;
    throw new BrokenStructure(
      `Grammar error: at 1(8): invalid regex "${escaped}" (in regex): ${why}\n   1 | start: /${source}/\n              ^`,
    );
  }
  const pattern = new Pattern(source);
  return (draws) => pattern.draw(draws);
}

/** Matches contradictions that llguidance reports in the same words. */
const SAID_BY_VLLM = /^(?:range \[|incompatible types)/;

/** Runs `draw` within the limit of work. Converts its errors, with the prefix `understudy:` if vLLM has no such error. */
function explainErrors<T>(draw: () => T): T {
  try {
    return limited(draw);
  } catch (error) {
    if (error instanceof Unsatisfiable && SAID_BY_VLLM.test(error.message))
      throw new BrokenStructure(`Grammar error: Unsatisfiable schema: ${error.message}`);
    if (error instanceof Unsatisfiable || error instanceof BrokenPattern || error instanceof TooMuchWork)
      throw new BrokenStructure(`understudy: no text is drawn for this constraint: ${error.message}`);
    if (isTooDeep(error))
      throw new BrokenStructure("understudy: no text is drawn for this constraint: it nests too deeply");
    throw error;
  }
}
