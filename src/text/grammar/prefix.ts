/**
 * Checks whether a text is the start of one that a regular expression matches. Follows all ways through the expression at once,
 * character by character, so that the time is proportional to the text. Needed for scripts, which need not fit a constraint.
 */
import type { AST } from "@eslint-community/regexpp";
import { regExpParser } from "../../base/expression-libraries.ts";

/** A state of the automaton of an expression. */
interface State {
  /** Reports whether a character leads to the next states. Null if they follow without a character. */
  readonly takes: ((character: string) => boolean) | null;
  readonly next: State[];
}

const END: State = { takes: null, next: [] };
/** Most states of an expression. Counted repetitions take a copy of their states per repetition. */
const STATES_MOST = 20_000;

/** The automaton of an expression, and the text so far. */
export class Prefix {
  /** The states that the text so far leads to. */
  #now: Set<State>;
  #states = 0;

  /** Throws the parser's `SyntaxError`, or a `RangeError` if there are too many states. */
  constructor(source: string) {
    const tree = regExpParser().parsePattern(source, 0, source.length, { unicode: true });
    this.#now = reached([this.#build(tree, END)]);
  }

  /** Adds text. Returns false if no match starts with the text so far. */
  push(text: string): boolean {
    for (const character of text) {
      const next: State[] = [];
      for (const { takes, next: after } of this.#now) if (takes?.(character)) next.push(...after);
      this.#now = reached(next);
    }
    return this.#now.size > 0;
  }

  /** True if the expression matches the text so far. */
  get complete(): boolean {
    return this.#now.has(END);
  }

  #state(takes: State["takes"], next: State[]): State {
    if (++this.#states > STATES_MOST) throw new RangeError("too many states");
    return { takes, next };
  }

  #build(element: AST.Pattern | AST.Alternative | AST.Element, then: State): State {
    switch (element.type) {
      case "Pattern":
      case "Group":
      case "CapturingGroup":
        return this.#state(
          null,
          element.alternatives.map((alternative) => this.#build(alternative, then)),
        );
      case "Alternative":
        return element.elements.reduceRight((after, part) => this.#build(part, after), then);
      case "Quantifier":
        return this.#repeated(element, then);
      case "Character":
      case "CharacterSet":
      case "CharacterClass": {
        const expression = new RegExp(`^(?:${element.raw})$`, "us");
        return this.#state((character) => expression.test(character), [then]);
      }
      default:
        // Assertions are ignored.
        return then;
    }
  }

  #repeated({ element, min, max }: AST.Quantifier, then: State): State {
    let state = then;
    if (max === Number.POSITIVE_INFINITY) {
      const loop = this.#state(null, [then]);
      loop.next.push(this.#build(element, loop));
      state = loop;
    } else for (let i = min; i < max; i++) state = this.#state(null, [then, this.#build(element, state)]);
    for (let i = 0; i < min; i++) state = this.#build(element, state);
    return state;
  }
}

/** Returns the states with all others that follow without a character. */
function reached(states: readonly State[]): Set<State> {
  const all = new Set<State>();
  const open = [...states];
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    if (all.has(state)) continue;
    all.add(state);
    if (state.takes === null) open.push(...state.next);
  }
  return all;
}
