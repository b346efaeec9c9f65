/**
 * Splits TypeScript or JavaScript into tokens and comments. The scripts that use it need no syntax tree, because they only
 * count braces or collect comments. So a short reader is enough.
 */

/**
 * A word, a literal, or a punctuation character of the code, with its offsets. A template literal has one token per text part.
 */
export interface Token {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** Matches tokens after which a slash begins a regular expression. */
const BEFORE_REGEX =
  /^(?:[([{,;=:?!&|+\-*%~^<>]|=>|return|typeof|case|in|of|delete|void|throw|new|else|do|yield|await)$/;
const WORD = /[\w$#\u0080-\uffff]+/y;
const REGEX = /\/(?:[^\\/[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
const STRING = /"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'/y;
const COMMENT = /\/\/.*|\/\*[\s\S]*?\*\//y;

/** Returns the tokens of the code and, in a separate list, its comments. Both lists are in the order of the code. */
export function tokensOf(code: string): { readonly tokens: Token[]; readonly comments: Token[] } {
  const tokens: Token[] = [];
  const comments: Token[] = [];
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
    else if (matched(COMMENT) > 0) {
      const end = matched(COMMENT);
      comments.push({ text: code.slice(at, end), start: at, end });
      at = end;
    } else if (character === "`") skipTemplate();
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
  return { tokens, comments };
}
