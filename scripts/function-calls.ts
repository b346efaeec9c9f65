/**
 * Makes functions report that they are called. Bun's transpiler removes types and prints one form of each construct, so that a
 * short reader of tokens finds all bodies: braces after a parameter list, and what follows an arrow.
 */

interface Token {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** Keywords whose parentheses are followed by a block that is no function. */
const BLOCKS = ["if", "for", "while", "switch", "catch", "with", "await"];
/** After these, a slash begins a regular expression. */
const BEFORE_REGEX =
  /^(?:[([{,;=:?!&|+\-*%~^<>]|=>|return|typeof|case|in|of|delete|void|throw|new|else|do|yield|await)$/;
const WORD = /[\w$#\u0080-\uffff]+/y;
const REGEX = /\/(?:[^\\/[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
const STRING = /"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'/y;
const COMMENT = /\/\/.*|\/\*[\s\S]*?\*\//y;

function tokensOf(code: string): Token[] {
  const tokens: Token[] = [];
  /** For each open brace, true if it belongs to a template literal. */
  const braces: boolean[] = [];
  let at = 0;
  const take = (end: number) => {
    tokens.push({ text: code.slice(at, end), start: at, end });
    at = end;
  };
  const matched = (pattern: RegExp) => {
    pattern.lastIndex = at;
    return pattern.test(code) ? pattern.lastIndex : -1;
  };
  const skipTemplate = () => {
    let end = at + 1;
    while (code[end] !== "`" && !(code[end] === "$" && code[end + 1] === "{")) end += code[end] === "\\" ? 2 : 1;
    if (code[end] === "`") return take(end + 1);
    braces.push(true);
    take(end + 2);
  };
  while (at < code.length) {
    const character = code[at]!;
    if (/\s/.test(character)) at++;
    else if (matched(COMMENT) > 0) at = matched(COMMENT);
    else if (character === "`") skipTemplate();
    else if (character === "}" && braces.pop() === true) skipTemplate();
    else if (matched(STRING) > 0) take(matched(STRING));
    else if (matched(WORD) > 0) take(matched(WORD));
    else if (character === "/" && BEFORE_REGEX.test(tokens.at(-1)?.text ?? ";") && matched(REGEX) > 0)
      take(matched(REGEX));
    else {
      if (character === "{") braces.push(false);
      take(at + (code.startsWith("=>", at) ? 2 : 1));
    }
  }
  return tokens;
}

const opens = (text: string) => text === "(" || text === "[" || text === "{" || text.endsWith("${");
const closes = (text: string) => text === ")" || text === "]" || text.startsWith("}");

/** Returns where the expression that begins at token `from` ends. */
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

/** JavaScript in which each function first evaluates `call`. `code`: as Bun's transpiler prints it. */
export function reporting(code: string, call: string): string {
  const tokens = tokensOf(code);
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
