/**
 * Prints comments of a folder, drawn at random, for a reader who judges whether a stranger understands them. The code below
 * each comment is left out on purpose: `bun scripts/draw-comments.ts src/tools/check --seed 7 --count 50`.
 *
 * File headers, doc comments and inline comments are drawn with equal chance. Consecutive `//` lines are one comment. Orders to
 * tools, such as `biome-ignore`, are left out. The same folder, seed and count give the same list as long as no comment
 * changes.
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { seeded } from "../src/base/random.ts";
import { tokensOf } from "./tokens.ts";

export interface Comment {
  /** Path of the file from the root of the repository. `line`: line of the comment's first character, from 1. */
  readonly path: string;
  readonly line: number;
  /** The whole comment without its delimiters. Lines are separated by a newline. */
  readonly text: string;
}

/** Matches the first words of comments that are orders to a tool. */
const ORDER = /^(?:biome-ignore|@ts-|[#@]__|\/ *<reference|!)/;

/** Removes the `//`, or the delimiters of a block comment and the asterisk of each of its lines. */
function withoutDelimiters(text: string): string {
  if (text.startsWith("//")) return text.slice(2).trim();
  const lines = text.slice(2, -2).replace(/^\*/, "").split("\n");
  return lines
    .map((line) => line.replace(/^\s*\* ?/, "").trimEnd())
    .join("\n")
    .trim();
}

/** Returns the comments of one file in their order. */
export function commentsOf(path: string, code: string): Comment[] {
  const comments: Comment[] = [];
  /** Offset at which a `//` comment must start to continue the last one. */
  let continuedAt = -1;
  let [line, counted] = [1, 0];
  for (const { text, start, end } of tokensOf(code).comments) {
    line += code.slice(counted, start).split("\n").length - 1;
    counted = start;
    const plain = withoutDelimiters(text);
    const isContinued = text.startsWith("//") && start === continuedAt;
    const last = comments.at(-1);
    if (isContinued && last) comments[comments.length - 1] = { ...last, text: `${last.text}\n${plain}` };
    else if (!ORDER.test(plain)) comments.push({ path, line, text: plain });
    const indent = start - (code.lastIndexOf("\n", start) + 1);
    const isAlone = code.slice(start - indent, start).trim() === "";
    continuedAt = text.startsWith("//") && isAlone && !ORDER.test(plain) ? end + 1 + indent : -1;
  }
  return comments;
}

/** Returns `count` of the items in random order, or all of them if there are fewer. */
export function drawn<T>(items: readonly T[], count: number, seed: number): T[] {
  const random = seeded(seed);
  const rest = [...items];
  const result: T[] = [];
  while (result.length < count && rest.length > 0) result.push(...rest.splice(random() % rest.length, 1));
  return result;
}

function main(): void {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { seed: { type: "string", default: "1" }, count: { type: "string", default: "50" } },
  });
  const folder = positionals[0]?.replace(/\/+$/, "");
  const [seed, count] = [Number(values.seed), Number(values.count)];
  if (folder === undefined || positionals.length > 1 || !Number.isSafeInteger(seed) || !Number.isSafeInteger(count)) {
    console.error("usage: bun scripts/draw-comments.ts FOLDER [--seed N] [--count N]");
    process.exit(2);
  }
  const root = new URL("../", import.meta.url).pathname;
  const paths = [...new Bun.Glob(`${folder}/**/*.ts`).scanSync({ cwd: root })].sort();
  const comments = paths.flatMap((path) => commentsOf(path, readFileSync(root + path, "utf8")));
  for (const { path, line, text } of drawn(comments, count, seed)) {
    console.log(`${path}:${line}\n  ${text.replaceAll("\n", "\n  ")}\n`);
  }
  console.log(`${Math.min(count, comments.length)} of ${comments.length} comments, seed ${seed}`);
}

if (import.meta.main) main();
