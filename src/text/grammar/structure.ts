/**
 * What must an answer's text be? A schema, an expression, a choice, a grammar, tags, tool calls: each becomes a writer, which
 * gives the text of a seed. All of it is made before the request goes to the engine, in the encoder's thread.
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

/** Schemas are JSON texts: they go to another thread, and most of them are never looked into here. */
export type Structure =
  | { readonly kind: "json"; readonly schema: string }
  | { readonly kind: "object" }
  | { readonly kind: "regex"; readonly pattern: string }
  | { readonly kind: "choice"; readonly choices: readonly string[] }
  | { readonly kind: "grammar"; readonly grammar: string }
  | { readonly kind: "tags"; readonly tags: string }
  | { readonly kind: "calls"; readonly plans: readonly CallPlan[] }
  | PromptedJson;

/** Returns the text of the choice at `index`, from its seed; null if the choice says what it likes. */
export type Writer = (seed: number, index: number) => string | null;

/** Throws `BrokenStructure`. */
export function writerOf(structure: Structure): Writer {
  const draw = explained(() => drawerOf(structure));
  return (seed, index) => explained(() => draw(new Draws(seed), index));
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
      return tagWriter(structure.tags, schemaText);
    case "calls":
      return (draws, index) => writeCalls(structure.plans[index]!, draws);
    case "prompted":
      return promptedWriter(structure);
  }
}

/** Special tokens may be spelled in markup of calls and tags, not in values, which may repeat what a prompt says. */
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

/** Contradictions that llguidance finds as well, in its words. */
const SAID_BY_VLLM = /^(?:range \[|incompatible types)/;

/** What is not drawn is refused, and it is said that it is here and not in vLLM. */
function explained<T>(draw: () => T): T {
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
