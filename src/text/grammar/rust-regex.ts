/**
 * Finds the first error in a regular expression, with the message of Rust's parser. vLLM 0.33 shows it if none of its grammar
 * libraries accepts the expression. Source: regex-syntax 0.8, as llguidance 1.7.6 prints it.
 */

/** An error in an expression. */
interface RegexMistake {
  /** Offset of the first marked character. */
  readonly from: number;
  /** Offset after the last marked character. */
  readonly to: number;
  readonly what: string;
  /** Name of an assertion that is valid but not supported. Absent for errors of syntax. */
  readonly lookaround?: string;
}

const mistake = (from: number, to: number, what: string): RegexMistake => ({ from, to, what });
const LOOKAROUND = "look-around, including look-ahead and look-behind, is not supported";
const NOTHING_TO_REPEAT = "repetition operator missing expression";
const INCOMPLETE_ESCAPE = "incomplete escape sequence, reached end of pattern prematurely";
/** Most nested groups: `nest_limit` of Rust's parser. */
const NESTED_MOST = 250;
const NESTED_TOO_DEEP = `exceed the maximum number of nested parentheses/brackets (${NESTED_MOST})`;

/** Returns the first error, or null if there is none that is known here. */
export function regexMistake(source: string): RegexMistake | null {
  return new Scanner(source).scan();
}

/** Returns the parser's message, which marks the place in the expression. */
export function mistakeText(source: string, { from, to, what }: RegexMistake): string {
  return `regex parse error:\n    ${source}\n    ${" ".repeat(from)}${"^".repeat(Math.max(1, to - from))}\nerror: ${what}`;
}

/** Scans one expression for errors. */
class Scanner {
  #at = 0;
  /** Offsets of the open groups. */
  #open: number[] = [];
  /** True if the part before can be repeated. */
  #repeatable = false;
  /** Name of the first word boundary, which is not supported. */
  #boundary: string | null = null;
  /** Error of the first group that is nested too deeply. */
  #tooDeep: RegexMistake | null = null;

  constructor(private readonly source: string) {}

  scan(): RegexMistake | null {
    while (this.#at < this.source.length) {
      const found = this.#one(this.source[this.#at]!);
      if (found !== null) return found;
    }
    if (this.#open.length > 0) return mistake(this.#open.at(-1)!, this.#open.at(-1)! + 1, "unclosed group");
    // Reported only if the expression is valid otherwise.
    if (this.#tooDeep !== null) return this.#tooDeep;
    return this.#boundary === null ? null : { ...mistake(0, 0, ""), lookaround: this.#boundary };
  }

  #one(character: string): RegexMistake | null {
    const at = this.#at;
    switch (character) {
      case "(":
        return this.#group();
      case ")":
        return this.#close(at);
      case "[":
        return this.#class();
      case "\\":
        return this.#escape();
      case "|":
        this.#at++;
        this.#repeatable = false;
        return null;
      case "*":
      case "+":
      case "?":
        if (!this.#repeatable) return mistake(at, at + 1, NOTHING_TO_REPEAT);
        return this.#skip(1);
      case "{":
        return this.#repeatable ? this.#counted() : mistake(at, at + 1, NOTHING_TO_REPEAT);
      default:
        return this.#skip(1);
    }
  }

  #mistakeAtEnd(what: string): RegexMistake {
    return mistake(this.source.length, this.source.length, what);
  }

  /** Moves past a part that can be repeated. */
  #skip(characters: number): null {
    this.#at += characters;
    this.#repeatable = true;
    return null;
  }

  #group(): RegexMistake | null {
    const at = this.#at;
    const rest = this.source.slice(at);
    const look = /^\(\?<?[=!]/.exec(rest);
    if (look !== null) return mistake(at, at + look[0].length, LOOKAROUND);
    if (rest === "(?") return mistake(at, at + 1, "unclosed group");
    const name = /^\(\?P?<[^>]*/.exec(rest);
    if (name !== null) {
      if (rest[name[0].length] !== ">") return this.#mistakeAtEnd("unclosed capture group name");
      this.#at += name[0].length + 1;
    } else if (rest.startsWith("(?")) {
      const flags = /^\(\?[imsUuxR-]*/.exec(rest)![0];
      const next = rest[flags.length];
      if (next === ")") return this.#skip(flags.length + 1);
      if (next !== ":") return mistake(at + flags.length, at + flags.length + 1, "unrecognized flag");
      this.#at += flags.length + 1;
    } else this.#at++;
    this.#open.push(at);
    this.#repeatable = false;
    return null;
  }

  #close(at: number): RegexMistake | null {
    const depth = this.#open.length;
    const from = this.#open.pop();
    if (from === undefined) return mistake(at, at + 1, "unopened group");
    if (depth === NESTED_MOST + 1) this.#tooDeep ??= mistake(from, at + 1, NESTED_TOO_DEEP);
    return this.#skip(1);
  }

  #class(): RegexMistake | null {
    const begin = this.#at;
    // An empty negated class, which xgrammar accepts.
    if (this.source.startsWith("[^]", begin)) return this.#skip(3);
    let at = begin + 1;
    if (this.source[at] === "^") at++;
    // A bracket directly after the opening one is a character.
    const first = at;
    for (let previous: number | null = null; at < this.source.length; ) {
      const character = this.source[at]!;
      if (character === "]" && at > first) {
        this.#at = at + 1;
        this.#repeatable = true;
        return null;
      }
      if (character === "[" && this.source[at + 1] === ":") {
        const end = this.source.indexOf(":]", at);
        at = end < 0 ? this.source.length : end + 2;
        previous = null;
        continue;
      }
      const length = character === "\\" ? 2 : 1;
      const isRange = character === "-" && previous !== null && this.source[at + 1] !== "]";
      if (!isRange) {
        previous = length === 1 ? at : null;
        at += length;
        continue;
      }
      const to = at + 1;
      if (/^\\[dwsDWSpP]/.test(this.source.slice(to)))
        return mistake(to, to + 2, "invalid range boundary, must be a literal");
      if (this.source[to] !== undefined && this.source[to] !== "\\" && this.source[previous!]! > this.source[to]!)
        return mistake(previous!, to + 1, "invalid character class range, the start must be <= the end");
      previous = null;
      at = to + (this.source[to] === "\\" ? 2 : 1);
    }
    const shown = this.source[begin + 1] === "]" ? 2 : 1;
    return mistake(begin, begin + shown, "unclosed character class");
  }

  #escape(): RegexMistake | null {
    const at = this.#at;
    const next = this.source[at + 1];
    // Accepted, because llguidance appends its delimiter to the expression.
    if (next === undefined) return this.#skip(1);
    if (next >= "1" && next <= "9") return mistake(at, at + 2, "backreferences are not supported");
    if (next === "k") return mistake(at, at + 2, "unrecognized escape sequence");
    const needed = { p: 1, P: 1, x: 2, u: 4, U: 8 }[next];
    if (needed !== undefined && this.source[at + 2] !== "{") {
      if (this.source.length < at + 2 + needed) return this.#mistakeAtEnd(INCOMPLETE_ESCAPE);
      return this.#skip(2 + needed);
    }
    if (needed !== undefined) return this.#braced(at, next);
    if (next === "b" || next === "B") this.#boundary ??= next === "b" ? "WordUnicode" : "WordUnicodeNegate";
    return this.#skip(2);
  }

  #braced(at: number, kind: string): RegexMistake | null {
    const end = this.source.indexOf("}", at);
    if (end < 0) return this.#mistakeAtEnd(INCOMPLETE_ESCAPE);
    const whole = this.source.slice(at, end + 1);
    if (/p/i.test(kind) && !isProperty(whole)) return mistake(at, end + 1, "Unicode property not found");
    return this.#skip(whole.length);
  }

  #counted(): RegexMistake | null {
    const at = this.#at;
    const rest = this.source.slice(at);
    const found = /^\{(\d+)(?:(,)(\d*))?\}/.exec(rest);
    if (found !== null) {
      const [whole, from, , to] = found;
      if (to !== undefined && to !== "" && Number(to) < Number(from))
        return mistake(at, at + whole.length, "invalid repetition count range, the start must be <= the end");
      return this.#skip(whole.length);
    }
    if (/^\{\d*$/.test(rest) || /^\{\d+,\d*$/.test(rest))
      return mistake(at, this.source.length, "unclosed counted repetition");
    return mistake(at + 1, at + 2, "repetition quantifier expects a valid decimal");
  }
}

function isProperty(property: string): boolean {
  try {
    new RegExp(property, "u");
    return true;
  } catch {
    return false;
  }
}
