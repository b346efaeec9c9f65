/**
 * Draws texts that a regular expression matches, of a wanted length. ESLint's parser reads the expression. Texts are built from
 * its parts, so that the time is proportional to their length. Ignores lookarounds and backreferences, which vLLM's grammar
 * libraries leave out or refuse.
 */
import type { AST } from "@eslint-community/regexpp";
import { regExpParser } from "../../base/expression-libraries.ts";
import type { Draws } from "./draws.ts";
import { isTooDeep, spend } from "./work.ts";

/** Error for an invalid expression, or one that matches no text. */
export class BrokenPattern extends Error {
  override readonly name = "BrokenPattern";
}

/** Most characters of a drawn text. Unlimited repetitions end long before. */
export const TEXT_MOST = 65_536;
/** Most draws of an unlimited or wide repetition beyond its minimum. */
const MORE = 6;

/** A part of an expression. */
interface Node {
  /** Characters of its shortest text. */
  readonly least: number;
  /** Characters of its longest text, or Infinity. */
  readonly most: number;
  /** Appends a text to `out`, of `from` to `to` characters if there is one. */
  draw(out: string[], draws: Draws, from: number, to: number): void;
}

const EMPTY: Node = { least: 0, most: 0, draw() {} };
const ASCII: readonly (readonly [number, number])[] = [[0x20, 0x7e]];

/** A regular expression whose texts can be drawn. */
export class Pattern {
  /** Characters of its shortest and of its longest text. */
  readonly least: number;
  readonly most: number;
  readonly #node: Node;

  /** Throws `BrokenPattern`. */
  constructor(source: string) {
    this.#node = nodeOf(parse(source));
    this.least = this.#node.least;
    this.most = this.#node.most;
    if (this.least > TEXT_MOST)
      throw new BrokenPattern(`its texts have at least ${this.least} characters; at most ${TEXT_MOST} are drawn`);
  }

  /** Draws a text that the whole expression matches, of `from` to `to` characters if there is one. */
  draw(draws: Draws, from = 0, to = Number.POSITIVE_INFINITY): string {
    let text = "";
    for (let attempt = 0; attempt < 32; attempt++) {
      const out: string[] = [];
      this.#node.draw(out, draws, Math.max(from, this.least), Math.min(to, TEXT_MOST));
      text = out.join("");
      if (out.length >= from && out.length <= to) return text;
    }
    return text;
  }
}

/** Converts Python's and Rust's syntax: names of groups, flags at the start, anchors and possessive repetitions. */
function plain(source: string): string {
  return source
    .replace(/^\(\?[imsuxU]+\)/, "")
    .replaceAll("(?P<", "(?<")
    .replace(/\\[AzZ]/g, "")
    .replace(/([*+?}])[*+]+/g, "$1")
    .replace(/(?<!\\)\\$/, "");
}

function parse(expression: string): AST.Pattern {
  const source = plain(expression);
  const parser = regExpParser();
  try {
    return parser.parsePattern(source, 0, source.length, { unicode: true });
  } catch {
    try {
      return parser.parsePattern(source);
    } catch (error) {
      if (isTooDeep(error)) throw error;
      throw new BrokenPattern((error as Error).message);
    }
  }
}

function nodeOf(element: AST.Pattern | AST.Element | AST.Alternative): Node {
  switch (element.type) {
    case "Pattern":
    case "Group":
    case "CapturingGroup":
      return either(element.alternatives.map(nodeOf));
    case "Alternative":
      return sequence(element.elements.map(nodeOf));
    case "Quantifier":
      return repeated(nodeOf(element.element), element.min, element.max);
    case "Character":
    case "CharacterSet":
    case "CharacterClass":
    case "ExpressionCharacterClass":
      return oneOf(rangesOf(element));
    default:
      // Assertions and backreferences.
      return EMPTY;
  }
}

function either(nodes: readonly Node[]): Node {
  if (nodes.length === 1) return nodes[0]!;
  return {
    least: nodes.reduce((all, { least }) => Math.min(all, least), Number.POSITIVE_INFINITY),
    most: nodes.reduce((all, { most }) => Math.max(all, most), 0),
    draw(out, draws, from, to) {
      spend(1 + nodes.length / 8);
      const fitting = nodes.filter(({ least, most }) => least <= to && most >= from);
      draws.pick(fitting.length > 0 ? fitting : nodes).draw(out, draws, from, to);
    },
  };
}

function sequence(nodes: readonly Node[]): Node {
  if (nodes.length === 1) return nodes[0]!;
  const least = nodes.reduce((sum, node) => sum + node.least, 0);
  const most = nodes.reduce((sum, node) => sum + node.most, 0);
  /** Most characters that the nodes after each node can add. */
  const after = new Array<number>(nodes.length).fill(0);
  for (let i = nodes.length - 2; i >= 0; i--) after[i] = after[i + 1]! + nodes[i + 1]!.most;
  return {
    least,
    most,
    draw(out, draws, from, to) {
      const begin = out.length;
      let leastLeft = least;
      spend(nodes.length);
      for (const [i, node] of nodes.entries()) {
        leastLeft -= node.least;
        const drawn = out.length - begin;
        const wanted = Math.max(node.least, from - drawn - after[i]!);
        node.draw(out, draws, wanted, Math.max(wanted, Math.min(node.most, to - drawn - leastLeft)));
      }
    },
  };
}

function repeated(node: Node, min: number, max: number): Node {
  if (max === 0 || node.most === 0) return EMPTY;
  return {
    least: node.least * min,
    most:
      max === Number.POSITIVE_INFINITY || node.most === Number.POSITIVE_INFINITY
        ? Number.POSITIVE_INFINITY
        : node.most * max,
    draw(out, draws, from, to) {
      const begin = out.length;
      const needed = node.most === Number.POSITIVE_INFINITY ? min : Math.max(min, Math.ceil(from / node.most));
      const room = node.least === 0 ? max : Math.min(max, Math.floor(to / node.least));
      const top = Math.max(needed, Math.min(room, needed + MORE));
      const times = needed + draws.below(top - needed + 1);
      for (let i = 0; i < times; i++) {
        spend();
        const drawn = out.length - begin;
        const left = times - i - 1;
        const wanted = Math.max(node.least, from - drawn - left * node.most);
        node.draw(out, draws, wanted, Math.max(wanted, to - drawn - left * node.least));
      }
    },
  };
}

type Ranges = readonly (readonly [number, number])[];

function oneOf(ranges: Ranges): Node {
  if (ranges.length === 0) throw new BrokenPattern("a class of characters is empty");
  // Printable ASCII is preferred, because other characters are rarely meant.
  const plain = ranges
    .map(([from, to]) => [Math.max(from, 0x20), Math.min(to, 0x7e)] as const)
    .filter(([from, to]) => from <= to)
    .flatMap((range) => ESCAPED.reduce<Ranges>(splitAround, [range]));
  const used = plain.length > 0 ? plain : ranges;
  const sizes = used.map(([from, to]) => to - from + 1);
  return {
    least: 1,
    most: 1,
    draw(out, draws) {
      spend(sizes.length);
      const at = draws.weighted(sizes);
      out.push(String.fromCodePoint(used[at]![0] + draws.below(sizes[at]!)));
    },
  };
}

/** Quote and backslash. No model writes them in a JSON text with a `pattern`, because XGrammar accepts no escapes there. */
const ESCAPED = [0x22, 0x5c];

/** Removes a character from ranges, unless it is one of their ends, because the expression then names the character itself. */
function splitAround(ranges: Ranges, code: number): Ranges {
  return ranges.flatMap(([from, to]): Ranges => {
    const isInside = from < code && code < to;
    return isInside
      ? [
          [from, code - 1],
          [code + 1, to],
        ]
      : [[from, to]];
  });
}

const DIGITS: Ranges = [[0x30, 0x39]];
const WORD: Ranges = [
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
];
const SPACE: Ranges = [[0x20, 0x20]];
/** All characters except surrogates. */
const ALL: Ranges = [
  [0, 0xd7ff],
  [0xe000, 0x10ffff],
];

function rangesOf(element: AST.Element | AST.CharacterClassElement): Ranges {
  switch (element.type) {
    case "Character":
      return [[element.value, element.value]];
    case "CharacterClassRange":
      return [[element.min.value, element.max.value]];
    case "CharacterClass": {
      const ranges = element.elements.flatMap((member) => rangesOf(member as AST.CharacterClassElement));
      return element.negate ? without(ranges) : ranges;
    }
    case "CharacterSet":
      return setOf(element);
    default:
      return ASCII;
  }
}

function setOf(set: AST.CharacterSet): Ranges {
  switch (set.kind) {
    case "any":
      return ASCII;
    case "digit":
      return set.negate ? without(DIGITS) : DIGITS;
    case "space":
      return set.negate
        ? without([
            [0x09, 0x0d],
            [0x20, 0x20],
            [0xa0, 0xa0],
            [0x1680, 0x1680],
            [0x2000, 0x200a],
            [0x2028, 0x2029],
            [0x202f, 0x202f],
            [0x205f, 0x205f],
            [0x3000, 0x3000],
            [0xfeff, 0xfeff],
          ])
        : SPACE;
    case "word":
      return set.negate ? without(WORD) : WORD;
    default:
      return matching(new RegExp(set.raw, "u"));
  }
}

/** Returns up to 64 characters with a Unicode property, from U+0020 to U+2FFF. */
function matching(property: RegExp): Ranges {
  const found: [number, number][] = [];
  for (let code = 0x20; code < 0x3000 && found.length < 64; code++)
    if (property.test(String.fromCharCode(code))) found.push([code, code]);
  return found;
}

function without(ranges: Ranges): Ranges {
  let left: (readonly [number, number])[] = [...ALL];
  for (const [from, to] of ranges) {
    spend(left.length);
    left = left.flatMap(([begin, end]) =>
      to < begin || from > end
        ? [[begin, end] as const]
        : [[begin, from - 1] as const, [to + 1, end] as const].filter(([a, b]) => a <= b),
    );
  }
  return left;
}
