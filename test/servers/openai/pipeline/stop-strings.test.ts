/** Compares the search for stop strings with a simple model of vLLM's rules that keeps the whole text. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { StopStrings } from "../../../../src/servers/openai/pipeline/stop-strings.ts";
import { cpuUs } from "../../../cpu.ts";
import { times } from "../../../size.ts";

/** The rules of `v1/engine/detokenizer.py` of vLLM 0.33 over a list of code points. Keeps the whole text. */
class Model {
  #text: string[] = [];
  #sent = 0;
  #tokens = 0;

  constructor(
    readonly stop: readonly string[],
    readonly include: boolean,
    readonly minTokens: number,
  ) {}

  push(pieces: readonly string[]): string | null {
    let from = this.#text.length;
    for (const piece of pieces) {
      this.#text.push(...piece);
      this.#tokens++;
      if (this.minTokens > 0 && this.#tokens <= this.minTokens) from = this.#text.length;
    }
    if (this.#tokens <= this.minTokens || from === this.#text.length) return null;
    let best: { stop: string; end: number } | null = null;
    for (const stop of this.stop) {
      const wanted = [...stop];
      for (let at = Math.max(0, from - wanted.length + 1); at + wanted.length <= this.#text.length; at++) {
        if (!wanted.every((character, i) => this.#text[at + i] === character)) continue;
        if (best === null || at + wanted.length < best.end) best = { stop, end: at + wanted.length };
        break;
      }
    }
    if (best === null) return null;
    this.#text.length = this.include ? best.end : best.end - [...best.stop].length;
    return best.stop;
  }

  take(finished: boolean): string {
    const hold = finished || this.include ? 0 : Math.max(...this.stop.map((stop) => [...stop].length)) - 1;
    const end = Math.max(this.#sent, this.#text.length - hold);
    const text = this.#text.slice(this.#sent, end).join("");
    this.#sent = end;
    return text;
  }
}

const letters = fc.constantFrom("a", "b", "é", "👩", "aa", "ab", "b👩", "");
const words = fc.array(fc.constantFrom("a", "b", "👩"), { minLength: 1, maxLength: 4 }).map((all) => all.join(""));

test("random texts give the same pieces and the same stop string as the model", () => {
  fc.assert(
    fc.property(
      fc.array(words, { minLength: 1, maxLength: 3 }),
      fc.boolean(),
      fc.nat(6),
      fc.array(fc.array(letters, { minLength: 1, maxLength: 4 }), { maxLength: 12 }),
      (stop, include, minTokens, steps) => {
        const model = new Model(stop, include, minTokens);
        const real = new StopStrings(stop, include, minTokens);
        let tokens = 0;
        for (const pieces of steps) {
          const found = real.push(pieces, tokens, 0);
          expect(found).toBe(model.push(pieces));
          tokens += pieces.length;
          expect(real.take(found !== null)).toBe(model.take(found !== null));
          if (found !== null) return;
        }
        expect(real.take(true)).toBe(model.take(true));
      },
    ),
    { numRuns: times(2000) },
  );
});

test("two characters are withheld for END, and the text ends before it", () => {
  const stops = new StopStrings(["END"], false, 0);
  const sent: string[] = [];
  for (const [i, piece] of ["ab", "cE", "ND"].entries()) {
    const found = stops.push([piece], i, 0);
    sent.push(stops.take(found !== null));
    expect(found).toBe(i === 2 ? "END" : null);
  }
  expect(sent).toEqual(["", "ab", "c"]);
});

test("of two matches the one that ends first wins, of equal ends the first in the list", () => {
  expect(new StopStrings(["bcd", "bc"], false, 0).push(["abcde"], 0, 0)).toBe("bc");
  expect(new StopStrings(["bc", "abc"], false, 0).push(["abc"], 0, 0)).toBe("bc");
  expect(new StopStrings(["abc", "bc"], false, 0).push(["abc"], 0, 0)).toBe("abc");
});

test("a stop string split over tokens is found after a long text", () => {
  const stops = new StopStrings(["never"], false, 0);
  for (let i = 0; i < 10_000; i++) {
    stops.push(["0123456789"], i, 0);
    stops.take(false);
  }
  expect(stops.push(["nev", "er"], 10_000, 0)).toBe("never");
});

test("the characters of a stop string of megabytes are counted once for all choices", () => {
  const text = "x".repeat(2 ** 21);
  const pass = cpuUs(() => {
    let sum = 0;
    for (let at = 0; at < text.length; at++) sum += text.charCodeAt(at);
    expect(sum).toBeGreaterThan(0);
  });
  for (const stop of [text, `${"é".repeat(2 ** 20)}👩`]) {
    // A new list in each run, because each request has its own list.
    const took = cpuUs(() => {
      const list = [stop];
      for (let choice = 0; choice < 100; choice++) new StopStrings(list, false, 0);
    });
    expect(took / pass).toBeLessThan(10);
  }
});
