/**
 * May a text still become one that a regular expression matches, and does it match already? All ways at once, character by
 * character, so that no expression takes longer than its text. For scripts, which may say what no grammar would let through.
 */
import type { AST } from "@eslint-community/regexpp";
import { regExpParser } from "../../base/expression-libraries.ts";

/** Takes a character from one state to the next. */
interface State {
  readonly takes: ((character: string) => boolean) | null;
  readonly next: State[];
}

const END: State = { takes: null, next: [] };
/** States of one expression: counted repetitions are written out. */
const STATES_MOST = 20_000;

export class Prefix {
  #now: Set<State>;
  #states = 0;

  /** Throws a `SyntaxError` of the parser, or a `RangeError` where it has too many states. */
  constructor(source: string) {
    const tree = regExpParser().parsePattern(source, 0, source.length, { unicode: true });
    this.#now = reached([this.#build(tree, END)]);
  }

  /** false: nothing that begins so matches. */
  push(text: string): boolean {
    for (const character of text) {
      const next: State[] = [];
      for (const { takes, next: after } of this.#now) if (takes?.(character)) next.push(...after);
      this.#now = reached(next);
    }
    return this.#now.size > 0;
  }

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
          element.alternatives.map((one) => this.#build(one, then)),
        );
      case "Alternative":
        return element.elements.reduceRight((after, one) => this.#build(one, after), then);
      case "Quantifier":
        return this.#repeated(element, then);
      case "Character":
      case "CharacterSet":
      case "CharacterClass": {
        const one = new RegExp(`^(?:${element.raw})$`, "us");
        return this.#state((character) => one.test(character), [then]);
      }
      default:
        return then; // assertions
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

/** With all that is reached without a character. */
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
