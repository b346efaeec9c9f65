/**
 * Libraries that read and match regular expressions. They are loaded by the first expression or in idle time, because loading
 * them takes 10 ms of a start.
 */

import type { RegExpParser } from "@eslint-community/regexpp";
import type { RE2JS } from "re2js";

/** Expressions of RE2, which match in linear time. */
export const re2 = (): typeof RE2JS => (require("re2js") as typeof import("re2js")).RE2JS;

/** Returns a parser of expressions of ECMAScript 2025. */
export function regExpParser(): RegExpParser {
  const library = require("@eslint-community/regexpp") as typeof import("@eslint-community/regexpp");
  return new library.RegExpParser({ ecmaVersion: 2025 });
}

/** Loads the libraries, which the first expression does otherwise. */
export function loadExpressionLibraries(): void {
  re2();
  regExpParser();
}
