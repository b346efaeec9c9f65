/**
 * Draws texts that fit a grammar, and reads grammars in llama.cpp's notation (GBNF), with the errors of llguidance 1.7.6
 * (`gbnf_to_lark.py`). `lark.ts` reads Lark's notation.
 */
import { BrokenStructure } from "./broken.ts";
import type { Draws } from "./draws.ts";
import { Pattern, TEXT_MOST } from "./pattern.ts";
import { spend } from "./work.ts";

/** The right side of a rule, or a part of it. */
export type Rule =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "pattern"; readonly pattern: Pattern }
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "all"; readonly parts: readonly Rule[] }
  | { readonly kind: "any"; readonly parts: readonly Rule[] }
  | { readonly kind: "times"; readonly part: Rule; readonly least: number; readonly most: number };

/** A grammar. `start` is the name of its first rule. */
export interface Grammar {
  readonly rules: ReadonlyMap<string, Rule>;
  readonly start: string;
}

/** Most draws of an unlimited repetition beyond its minimum. */
const MORE = 4;
/** Depth of rules from which the shallowest alternative is taken. */
const DEPTH_MOST = 24;

/** Draws a text. Cuts a text without an end at `TEXT_MOST` characters. */
export function drawGrammar({ rules, start }: Grammar, draws: Draws): string {
  const levels = levelsOf(rules);
  const out: string[] = [];
  // An explicit stack, because rules may nest to any depth.
  const stack: { rule: Rule; depth: number }[] = [{ rule: { kind: "name", name: start }, depth: 0 }];
  for (let length = 0; stack.length > 0 && length < TEXT_MOST; ) {
    const { rule, depth } = stack.pop()!;
    const push = (next: Rule) => stack.push({ rule: next, depth: depth + 1 });
    spend();
    if (stack.length > TEXT_MOST) break;
    switch (rule.kind) {
      case "text":
      case "pattern": {
        const text = rule.kind === "text" ? rule.text : rule.pattern.draw(draws);
        out.push(text);
        length += text.length;
        break;
      }
      case "name":
        push(rules.get(rule.name)!);
        // Counted, so that drawing also ends for rules that only name each other.
        length++;
        break;
      case "all":
        for (const part of rule.parts.toReversed()) push(part);
        break;
      case "any": {
        push(draws.pick(depth > DEPTH_MOST ? shallowest(rule.parts, levels) : rule.parts));
        break;
      }
      case "times": {
        const most = Math.min(rule.most, rule.least + (depth > DEPTH_MOST ? 0 : MORE));
        const times = Math.min(TEXT_MOST, rule.least + draws.below(most - rule.least + 1));
        for (let i = 0; i < times; i++) push(rule.part);
      }
    }
  }
  return out.join("");
}

/** Returns the alternatives whose shallowest text has the least depth. */
function shallowest(parts: readonly Rule[], levels: ReadonlyMap<string, number>): readonly Rule[] {
  const all = parts.map((part) => levelIn(part, levels));
  const least = all.reduce((first, second) => Math.min(first, second));
  return parts.filter((_, i) => all[i] === least);
}

/** Returns the depth of the shallowest text of each rule. It is Infinity if no text ends. */
function levelsOf(rules: ReadonlyMap<string, Rule>): Map<string, number> {
  const levels = new Map([...rules.keys()].map((name) => [name, Number.POSITIVE_INFINITY]));
  const users = new Map<string, string[]>([...rules.keys()].map((name) => [name, []]));
  for (const [name, rule] of rules) for (const used of ruleNames(rule)) users.get(used)?.push(name);
  // Only rules that name a changed rule are computed again, so that a chain of rules costs its length, not its square.
  const open = new Set(rules.keys());
  for (const name of open) {
    open.delete(name);
    const level = levelIn(rules.get(name)!, levels) + 1;
    if (level >= levels.get(name)!) continue;
    levels.set(name, level);
    for (const user of users.get(name)!) open.add(user);
  }
  return levels;
}

function levelIn(rule: Rule, levels: ReadonlyMap<string, number>): number {
  spend();
  switch (rule.kind) {
    case "name":
      return levels.get(rule.name) ?? 0;
    case "all":
      return rule.parts.reduce((most, part) => Math.max(most, levelIn(part, levels)), 0);
    case "any":
      return rule.parts.reduce((least, part) => Math.min(least, levelIn(part, levels)), Number.POSITIVE_INFINITY);
    case "times":
      return rule.least === 0 ? 0 : levelIn(rule.part, levels);
    default:
      return 0;
  }
}

/** Reports whether a grammar is GBNF, by vLLM's rule: it has `::=`, or no rule in Lark's notation. */
export function isGbnf(text: string): boolean {
  const lines = text.split("\n").map((line) => line.replace(/(#|\/\/).*$/, ""));
  return (
    lines.some((line) => line.includes("::=")) || !lines.some((line) => /^\s*[?!]*\w+(?:\.\d+)?\s*:(?![:=])/.test(line))
  );
}

/** Reads a grammar in GBNF. Throws `BrokenStructure`. */
export function readGbnf(text: string): Grammar {
  const rules = new Reader(text).rules();
  const names = new Set<string>();
  for (const rule of rules.values()) ruleNames(rule, names);
  for (const name of names) if (!rules.has(name)) throw mistake(`Rule '${name}' not found`);
  if (!rules.has("root")) throw mistake("No 'root' rule found");
  return { rules, start: "root" };
}

/** Returns the names of rules that a rule uses, each once, in order. */
export function ruleNames(rule: Rule, names: Set<string> = new Set()): Set<string> {
  if (rule.kind === "name") names.add(rule.name);
  else if (rule.kind === "times") ruleNames(rule.part, names);
  else if (rule.kind === "all" || rule.kind === "any") for (const part of rule.parts) ruleNames(part, names);
  return names;
}

function mistake(what: string): BrokenStructure {
  return new BrokenStructure(`Invalid grammar specification: Failed to convert the grammar from GBNF to Lark: ${what}`);
}

const WORD = /[\p{L}\p{N}_-]/u;
const HEX: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };
const PLAIN: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };

/** Parses the text of a grammar. */
class Reader {
  #at = 0;

  constructor(private readonly text: string) {}

  rules(): Map<string, Rule> {
    const rules = new Map<string, Rule>();
    this.#skip(true);
    while (this.#at < this.text.length) {
      const name = this.#name();
      this.#skip(false);
      if (!this.text.startsWith("::=", this.#at)) throw this.#fail("Expected ::=");
      this.#at += 3;
      this.#skip(true);
      rules.set(name, this.#alternatives(false));
      this.#skip(true);
    }
    return rules;
  }

  #now(): string {
    return this.text[this.#at] ?? "";
  }

  #alternatives(nested: boolean): Rule {
    const parts: Rule[] = [];
    for (;;) {
      parts.push(this.#sequence(nested));
      this.#skip(nested);
      if (this.#now() !== "|") return parts.length === 1 ? parts[0]! : { kind: "any", parts };
      this.#at++;
      this.#skip(true);
    }
  }

  #sequence(nested: boolean): Rule {
    const parts: Rule[] = [];
    while (this.#now() !== "" && !"|)".includes(this.#now()) && (nested || !"\r\n".includes(this.#now()))) {
      const part = this.#part(nested);
      if (part === null) break;
      this.#skip(nested);
      parts.push(this.#repeated(part));
      this.#skip(nested);
    }
    return parts.length === 1 ? parts[0]! : { kind: "all", parts };
  }

  #part(nested: boolean): Rule | null {
    if (this.#now() === '"') return this.#literal();
    if (this.#now() === "[") return this.#class();
    if (this.#now() === ".") {
      this.#at++;
      return { kind: "pattern", pattern: new Pattern(".") };
    }
    if (this.#now() === "(") {
      this.#at++;
      this.#skip(true);
      const inner = this.#alternatives(true);
      if (this.#now() !== ")") throw this.#fail("Expected ')'");
      this.#at++;
      this.#skip(nested);
      return inner;
    }
    return WORD.test(this.#now()) ? { kind: "name", name: this.#name() } : null;
  }

  #literal(): Rule {
    this.#at++;
    let text = "";
    for (;;) {
      const isEnd = this.#now() === '"';
      const character = this.#character();
      if (isEnd) return { kind: "text", text };
      text += character;
    }
  }

  #class(): Rule {
    const begin = this.#at++;
    for (;;) {
      const isEnd = this.#now() === "]";
      this.#character();
      if (isEnd) return { kind: "pattern", pattern: new Pattern(this.text.slice(begin, this.#at)) };
    }
  }

  #character(): string {
    if (this.#now() === "") throw this.#fail("Unexpected end of input");
    if (this.#now() !== "\\") {
      const character = String.fromCodePoint(this.text.codePointAt(this.#at)!);
      this.#at += character.length;
      return character;
    }
    this.#at++;
    const kind = this.#now();
    const digits = HEX[kind];
    if (digits !== undefined) {
      const hex = this.text.slice(this.#at + 1, this.#at + 1 + digits);
      if (hex.length !== digits || !/^[0-9a-fA-F]+$/.test(hex))
        throw this.#fail(`Invalid \\${kind} escape sequence: \\${kind}${hex}`);
      this.#at += 1 + digits;
      return String.fromCodePoint(Math.min(0x10ffff, Number.parseInt(hex, 16)));
    }
    if (kind === "" || !'"\\[]nrt'.includes(kind)) throw this.#fail(`Invalid escape sequence \\${kind}`);
    this.#at++;
    return PLAIN[kind] ?? kind;
  }

  #repeated(part: Rule): Rule {
    const simple = { "*": [0, Number.POSITIVE_INFINITY], "+": [1, Number.POSITIVE_INFINITY], "?": [0, 1] }[this.#now()];
    if (simple !== undefined) {
      this.#at++;
      return { kind: "times", part, least: simple[0]!, most: simple[1]! };
    }
    if (this.#now() !== "{") return part;
    this.#at++;
    this.#skip(true);
    const least = this.#integer();
    this.#skip(true);
    let most = least;
    if (this.#now() === ",") {
      this.#at++;
      this.#skip(true);
      most = /\d/.test(this.#now()) ? this.#integer() : Number.POSITIVE_INFINITY;
      this.#skip(true);
      if (this.#now() !== "}") throw this.#fail("Expected '}'");
    } else if (this.#now() !== "}") throw this.#fail("Expected ',' or '}'");
    this.#at++;
    return { kind: "times", part, least, most: Math.max(least, most) };
  }

  #integer(): number {
    const digits = /^\d+/.exec(this.text.slice(this.#at))?.[0];
    if (digits === undefined) throw this.#fail("Expected integer");
    this.#at += digits.length;
    return Number(digits);
  }

  #name(): string {
    const begin = this.#at;
    while (this.#now() !== "" && WORD.test(this.#now())) this.#at++;
    if (this.#at === begin) throw this.#fail("Expected name");
    return this.text.slice(begin, this.#at);
  }

  #skip(lines: boolean): void {
    const blank = lines ? /^(?:[ \t\r\n]|#[^\r\n]*)+/ : /^(?:[ \t]|#[^\r\n]*)+/;
    this.#at += blank.exec(this.text.slice(this.#at))?.[0].length ?? 0;
  }

  #fail(what: string): BrokenStructure {
    const line = this.text.slice(0, this.#at).split("\n").length;
    const before = quoted(this.text.slice(Math.max(0, this.#at - 20), this.#at));
    return mistake(`${what} at line ${line}, ${before} ^ ${quoted(this.text.slice(this.#at, this.#at + 20))}`);
  }
}

/** Returns Python's `repr` of a text. */
function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const inner = text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\r", "\\r").replaceAll("\t", "\\t");
  return quote + (quote === "'" ? inner.replaceAll("'", "\\'") : inner) + quote;
}
