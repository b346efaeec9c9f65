/**
 * Loads the libraries that read and match regular expressions, at the first expression or in idle time. Loading them at the
 * start would take 10 ms.
 */

import type { RegExpParser } from "@eslint-community/regexpp";
import type { RE2JS } from "re2js";

/** Returns the library RE2, which matches expressions in linear time. */
export const re2 = (): typeof RE2JS => (require("re2js") as typeof import("re2js")).RE2JS;

/** Returns a parser of expressions of ECMAScript 2025. */
export function regExpParser(): RegExpParser {
  const library = require("@eslint-community/regexpp") as typeof import("@eslint-community/regexpp");
  return new library.RegExpParser({ ecmaVersion: 2025 });
}

/** Loads both libraries now, so that the first expression does not wait for them. */
export function loadExpressionLibraries(): void {
  re2();
  regExpParser();
}
