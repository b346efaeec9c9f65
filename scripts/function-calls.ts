/**
 * Makes functions report that they are called. It expects code as Bun's transpiler prints it, without types and with one form
 * for each construct. So a short reader of tokens finds all function bodies: braces after a parameter list, and the code after
 * an arrow.
 */

import { type Token, tokensOf } from "./tokens.ts";

/** Keywords after whose parentheses a block follows that is not a function body. */
const BLOCKS = ["if", "for", "while", "switch", "catch", "with", "await"];

const opens = (text: string) => text === "(" || text === "[" || text === "{" || text.endsWith("${");
const closes = (text: string) => text === ")" || text === "]" || text.startsWith("}");

/** Returns the offset at which the expression that begins at token `from` ends. */
function endOfExpression(tokens: readonly Token[], from: number): number {
  let depth = 0;
  let questions = 0;
  for (let i = from; i < tokens.length; i++) {
    const { text } = tokens[i]!;
    if (closes(text) && depth-- === 0) return tokens[i]!.start;
    if (opens(text)) depth++;
    if (depth > 0) continue;
    if (text === "," || text === ";") return tokens[i]!.start;
    if (text === "?" && !/^[?.]/.test(tokens[i + 1]?.text ?? "") && tokens[i - 1]?.text !== "?") questions++;
    if (text === ":" && questions-- === 0) return tokens[i]!.start;
  }
  return tokens.at(-1)?.end ?? 0;
}

/**
 * Returns JavaScript code with `call` inserted at the start of each function. `code` must be in the form that Bun's transpiler
 * prints.
 */
export function reporting(code: string, call: string): string {
  const { tokens } = tokensOf(code);
  const inserted: [at: number, text: string][] = [];
  const parentheses: number[] = [];
  let heldBefore = "";
  tokens.forEach(({ text, end }, i) => {
    if (text === "(") parentheses.push(i);
    if (text === ")") heldBefore = tokens[(parentheses.pop() ?? 0) - 1]?.text ?? "";
    const before = tokens[i - 1]?.text;
    if (text === "{" && (before === "=>" || (before === ")" && !BLOCKS.includes(heldBefore))))
      inserted.push([end, `${call};`]);
    if (text === "=>" && tokens[i + 1] && tokens[i + 1]!.text !== "{") {
      inserted.push([end, `(${call},`]);
      inserted.push([endOfExpression(tokens, i + 1), ")"]);
    }
  });
  let result = "";
  let from = 0;
  for (const [at, text] of inserted.sort(([a], [b]) => a - b)) {
    result += code.slice(from, at) + text;
    from = at;
  }
  return result + code.slice(from);
}
