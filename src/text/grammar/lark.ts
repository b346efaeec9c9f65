/** Reads grammars in Lark's notation: rules, terminals, texts, expressions, repetitions, and imports of `common`. */
import { parsedJson } from "../../base/json-object.ts";
import { BrokenStructure } from "./broken.ts";
import { type Grammar, type Rule, ruleNames } from "./grammar.ts";
import { Pattern } from "./pattern.ts";

/** Terminals of `common`, as expressions for texts of ordinary length. */
const COMMON: Readonly<Record<string, string>> = {
  DIGIT: "[0-9]",
  HEXDIGIT: "[0-9a-fA-F]",
  INT: "[0-9]{1,4}",
  SIGNED_INT: "-?[0-9]{1,4}",
  DECIMAL: "[0-9]{1,3}\\.[0-9]{1,3}",
  FLOAT: "[0-9]{1,3}\\.[0-9]{1,3}",
  NUMBER: "[0-9]{1,3}(\\.[0-9]{1,2})?",
  SIGNED_NUMBER: "-?[0-9]{1,3}(\\.[0-9]{1,2})?",
  LETTER: "[a-z]",
  LCASE_LETTER: "[a-z]",
  UCASE_LETTER: "[A-Z]",
  WORD: "[a-z]{3,8}",
  CNAME: "[a-z_][a-z0-9_]{2,8}",
  ESCAPED_STRING: '"[a-z ]{3,12}"',
  WS: " ",
  WS_INLINE: " ",
  NEWLINE: "\\n",
};

const TOKEN =
  /\s+|\/\/[^\n]*|#[^\n]*|"(?:[^"\\\n]|\\.)*"i?|'(?:[^'\\\n]|\\.)*'i?|\/(?:[^/\\\n]|\\.)+\/[a-z]*|->\s*\w+|\.\.|~\s*\d+(?:\s*\.\.\s*\d+)?|\{\d+(?:,\d*)?\}|[\w.]+|[()[\]|*+?:]|%\w+/gy;

/** Reads a grammar. Throws `BrokenStructure`. */
export function readLark(text: string): Grammar {
  const rules = new Map<string, Rule>();
  for (const statement of statementsOf(text)) {
    const importing = /^%import\s+(?:common\.)?(\w+)(?:\s*->\s*(\w+))?/.exec(statement);
    if (importing !== null) rules.set(importing[2] ?? importing[1]!, imported(importing[1]!));
    if (statement.startsWith("%")) continue;
    const head = /^[?!]*([a-zA-Z_]\w*)(?:\.\d+|\[[^\]]*\])?\s*:/.exec(statement);
    if (head === null)
      throw new BrokenStructure(`Grammar error: Expected a rule, found ${JSON.stringify(statement.slice(0, 40))}`);
    rules.set(head[1]!, new Reader(statement.slice(head[0].length)).rule());
  }
  for (const rule of rules.values())
    for (const name of ruleNames(rule))
      if (!rules.has(name)) throw new BrokenStructure(`Grammar error: unknown name: "${name}"`);
  if (!rules.has("start")) throw new BrokenStructure("Grammar error: no start rule found");
  return { rules, start: "start" };
}

/** Returns the statements of a grammar. A line that does not start a rule continues the one before. */
function statementsOf(text: string): string[] {
  const statements: string[] = [];
  for (const line of text.split("\n")) {
    const plain = line.replace(/^\s*(?:\/\/|#).*$/, "");
    if (plain.trim() === "") continue;
    const begins = /^(?:%\w+|[?!]*[a-zA-Z_]\w*(?:\.\d+|\[[^\]]*\])?\s*:)/.test(plain.trimStart());
    if (begins || statements.length === 0) statements.push(plain.trim());
    else statements[statements.length - 1] += ` ${plain.trim()}`;
  }
  return statements;
}

function imported(name: string): Rule {
  const pattern = COMMON[name];
  if (pattern === undefined) throw new BrokenStructure(`Grammar error: Unknown common regex: ${name}`);
  return { kind: "pattern", pattern: new Pattern(pattern) };
}

/** Parses the right side of a rule. */
class Reader {
  readonly #tokens: string[];
  #at = 0;

  constructor(text: string) {
    this.#tokens = [];
    let end = 0;
    for (const { 0: token, index } of text.matchAll(TOKEN)) {
      if (index !== end) break;
      end += token.length;
      if (!/^(?:\s|\/\/|#|->)/.test(token)) this.#tokens.push(token.replace(/\s+/g, token.startsWith("~") ? "" : "$&"));
    }
    if (end < text.length)
      throw new BrokenStructure(
        `Grammar error: Unexpected character in grammar: ${JSON.stringify(text.slice(end, end + 10))}`,
      );
  }

  rule(): Rule {
    const rule = this.#alternatives();
    if (this.#at < this.#tokens.length)
      throw new BrokenStructure(`Grammar error: Unexpected token '${this.#tokens[this.#at]}'`);
    return rule;
  }

  #alternatives(): Rule {
    const parts: Rule[] = [];
    do parts.push(this.#sequence());
    while (this.#next("|"));
    return parts.length === 1 ? parts[0]! : { kind: "any", parts };
  }

  #sequence(): Rule {
    const parts: Rule[] = [];
    for (
      let token = this.#tokens[this.#at];
      token !== undefined && !"|)]".includes(token);
      token = this.#tokens[this.#at]
    )
      parts.push(this.#repeated(this.#part(token)));
    return parts.length === 1 ? parts[0]! : { kind: "all", parts };
  }

  #part(token: string): Rule {
    this.#at++;
    if (token === "(" || token === "[") {
      const inner = this.#alternatives();
      const close = token === "(" ? ")" : "]";
      if (!this.#next(close)) throw new BrokenStructure(`Grammar error: Expected token '${close}'`);
      return token === "(" ? inner : { kind: "times", part: inner, least: 0, most: 1 };
    }
    if (/^["']/.test(token)) return this.#text(token);
    if (token.startsWith("/"))
      return { kind: "pattern", pattern: new Pattern(token.slice(1, token.lastIndexOf("/")).replaceAll("\\/", "/")) };
    if (/^\w+$/.test(token)) return { kind: "name", name: token };
    throw new BrokenStructure(`Grammar error: Unexpected token '${token}'`);
  }

  #text(token: string): Rule {
    const text = unquoted(token);
    if (!this.#next("..")) return { kind: "text", text };
    const to = unquoted(this.#tokens[this.#at++] ?? '""');
    const escaped = (character: string) => `\\u{${character.codePointAt(0)!.toString(16)}}`;
    return { kind: "pattern", pattern: new Pattern(`[${escaped(text)}-${escaped(to)}]`) };
  }

  #repeated(part: Rule): Rule {
    const token = this.#tokens[this.#at] ?? "";
    const counted = /^[~{](\d+)(?:(?:\.\.|,)(\d*))?\}?$/.exec(token);
    const simple = { "*": [0, Number.POSITIVE_INFINITY], "+": [1, Number.POSITIVE_INFINITY], "?": [0, 1] }[token];
    if (counted === null && simple === undefined) return part;
    this.#at++;
    if (simple !== undefined) return { kind: "times", part, least: simple[0]!, most: simple[1]! };
    const least = Number(counted![1]);
    const most =
      counted![2] === undefined ? least : counted![2] === "" ? Number.POSITIVE_INFINITY : Number(counted![2]);
    return { kind: "times", part, least, most: Math.max(least, most) };
  }

  #next(token: string): boolean {
    if (this.#tokens[this.#at] !== token) return false;
    this.#at++;
    return true;
  }
}

function unquoted(token: string): string {
  const inner = token.replace(/i$/, "").slice(1, -1);
  return (parsedJson(`"${inner.replaceAll("\\'", "'").replace(/(?<!\\)"/g, '\\"')}"`) ?? inner) as string;
}
