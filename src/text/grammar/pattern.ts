/**
 * Which texts does a regular expression match? Draws one of them, of a length that is wanted. ESLint's parser reads the
 * expression; nothing is matched by trial, so no expression takes longer than its text. Lookaround and references back
 * are not looked at, as the grammar libraries behind vLLM leave them out or refuse them.
 */
import type { AST } from "@eslint-community/regexpp";
import { regExpParser } from "../../base/expression-libraries.ts";
import type { Draws } from "./draws.ts";
import { isTooDeep, spend } from "./work.ts";

/** No such expression, or one that matches nothing. */
export class BrokenPattern extends Error {
  override readonly name = "BrokenPattern";
}

/** Characters of one drawn text; a repetition without an end is ended long before. */
export const TEXT_MOST = 65_536;
/** How often a repetition without an end, or a wide one, is drawn beyond its least. */
const MORE = 6;

interface Node {
  readonly least: number;
  /** Infinity: no end. */
  readonly most: number;
  /** Appends a text, of such a length where that is possible. */
  draw(out: string[], draws: Draws, from: number, to: number): void;
}

const EMPTY: Node = { least: 0, most: 0, draw() {} };
const ASCII: readonly (readonly [number, number])[] = [[0x20, 0x7e]];

/** Throws `BrokenPattern`. */
export class Pattern {
  readonly least: number;
  readonly most: number;
  readonly #node: Node;

  constructor(source: string) {
    this.#node = nodeOf(parse(source));
    this.least = this.#node.least;
    this.most = this.#node.most;
    if (this.least > TEXT_MOST)
      throw new BrokenPattern(`its texts have at least ${this.least} characters; at most ${TEXT_MOST} are drawn`);
  }

  /** A text that the whole expression matches, with `from` to `to` characters where there is one. */
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

/** What other dialects write that JavaScript does not: Python's and Rust's names, flags in front, anchors, doubled repetitions. */
function plain(source: string): string {
  return source
    .replace(/^\(\?[imsuxU]+\)/, "")
    .replaceAll("(?P<", "(?<")
    .replace(/\\[AzZ]/g, "")
    .replace(/([*+?}])[*+]+/g, "$1")
    .replace(/(?<!\\)\\$/, "");
}

function parse(given: string): AST.Pattern {
  const source = plain(given);
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
      return EMPTY; // assertions and references back
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
  /** Most characters that the nodes behind each one can add. */
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
        const made = out.length - begin;
        const wanted = Math.max(node.least, from - made - after[i]!);
        node.draw(out, draws, wanted, Math.max(wanted, Math.min(node.most, to - made - leastLeft)));
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
        const made = out.length - begin;
        const left = times - i - 1;
        const wanted = Math.max(node.least, from - made - left * node.most);
        node.draw(out, draws, wanted, Math.max(wanted, to - made - left * node.least));
      }
    },
  };
}

type Ranges = readonly (readonly [number, number])[];

function oneOf(ranges: Ranges): Node {
  if (ranges.length === 0) throw new BrokenPattern("a class of characters that has none");
  // Plain characters where there are some: others are rarely what is meant.
  const plain = ranges
    .map(([from, to]) => [Math.max(from, 0x20), Math.min(to, 0x7e)] as const)
    .filter(([from, to]) => from <= to)
    .flatMap((range) => ESCAPED.reduce<Ranges>(splitAround, [range]));
  const taken = plain.length > 0 ? plain : ranges;
  const sizes = taken.map(([from, to]) => to - from + 1);
  return {
    least: 1,
    most: 1,
    draw(out, draws) {
      spend(sizes.length);
      const at = draws.weighted(sizes);
      out.push(String.fromCodePoint(taken[at]![0] + draws.below(sizes[at]!)));
    },
  };
}

/** The quote and the backslash: no model writes them within a JSON text's `pattern`, as XGrammar takes no escape there. */
const ESCAPED = [0x22, 0x5c];

/** Only from within a range: a character that is named is meant. */
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
/** All but surrogates. */
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
      const ranges = element.elements.flatMap((one) => rangesOf(one as AST.CharacterClassElement));
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

/** Characters of a Unicode property: of the first planes those that are found soon. */
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
