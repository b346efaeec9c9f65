/** Checks comments, names of types and commit subjects by the rules of plain English, and that each rule notices a violation. */
import { expect, test } from "bun:test";
import { filesUnder, read, type SourceFile } from "./tidy-rules.ts";
import { isParticiple, SUBJECT_CHARACTERS_MOST, sentencesOf, wordRules, wordsIn } from "./tidy-words.ts";

const files = filesUnder("");

test.each(wordRules.map((rule) => [rule.name, rule] as const))("%s", (_, { applies, wrong }) => {
  const checked = files.filter(applies);
  expect(checked.length).toBeGreaterThan(500);
  const found = checked.flatMap((path) => {
    const fault = wrong({ path, text: read(path) });
    return fault ? [`${path}: ${fault}`] : [];
  });
  expect(found).toEqual([]);
});

/** The last commit with longer subjects. */
const BEFORE_SERIES = "d01bfc6d";

function git(...words: string[]): string | null {
  if (Bun.which("git") === null) return null;
  const { exitCode, stdout } = Bun.spawnSync(["git", ...words], { cwd: import.meta.dir, stderr: "ignore" });
  return exitCode === 0 ? stdout.toString().trim() : null;
}

/** Returns the reason why subjects cannot be checked here. Null if they can. */
function whyNoSubjects(): string | null {
  if (git("rev-parse", "--git-dir") === null) return "no .git, as in a source archive";
  return git("merge-base", "--is-ancestor", BEFORE_SERIES, "HEAD") === null ? "a shallow clone without the base" : null;
}

const tooLong = (subjects: readonly string[]) =>
  subjects.filter((subject) => [...subject].length > SUBJECT_CHARACTERS_MOST);

const whyNot = whyNoSubjects();
test.skipIf(whyNot !== null)(
  `commit subjects have at most ${SUBJECT_CHARACTERS_MOST} characters${whyNot === null ? "" : `, left out: ${whyNot}`}`,
  () => {
    const subjects = git("log", "--format=%s", `${BEFORE_SERIES}..HEAD`)!.split("\n");
    expect(subjects.length).toBeGreaterThan(300);
    expect(tooLong(subjects)).toEqual([]);
  },
);

test("a longer subject is noticed", () => {
  const most = "x".repeat(SUBJECT_CHARACTERS_MOST);
  expect(tooLong([most, `${most}x`])).toEqual([`${most}x`]);
});

const LONG = `/** Returns ${"one more word and ".repeat(8)}. */`;

/** Violations that each rule must notice: start of the rule's name, path, text. */
const bad: readonly (readonly [rule: string, path: string, text: string])[] = [
  ["a file opens with", "src/kernel/marks.ts", "export const x = 1;"],
  ["a file opens with", "src/kernel/marks.ts", "/** Who is woken next? Times that are due. */"],
  ["a file opens with", "test/size.ts", "/**\n * How much of\n * a test runs?\n */"],
  ["a file opens with", "bench/stream/anchor.c", "/*\n * What does a stream cost?\n */"],
  ["a comment begins with", "src/servers/openai/front/cors.ts", "/** Of every preflight. */\nconst PREFLIGHT = {};"],
  ["a comment begins with", "assembly/arena.ts", "/** Its entry. */"],
  ["a comment begins with", "src/engine/interface/types.ts", "/**\n * The same where the numbers live.\n */"],
  ["a comment begins with", "src/app/workers/supervisor.ts", "const a = 1;\n  // It may arrive after its end.\n"],
  ["a comment begins with", "src/engine/config/buckets.ts", "const a = 1; // Of --kv-cache-metrics."],
  ["a comment begins with", "src/base/clock.ts", "/** What is woken next. */"],
  ["a comment begins with", "src/base/clock.ts", "// Those that are due."],
  ["a sentence of a comment", "src/kernel/marks.ts", LONG],
  ["a sentence of a comment", "src/kernel/marks.ts", `/** Short. */\n${LONG}`],
  ["comments avoid", "src/kernel/marks.ts", "// Kept for whoever asks."],
  ["comments avoid", "src/kernel/marks.ts", "/** Refuses a list that is none. */"],
  ["comments avoid", "src/kernel/marks.ts", "/** A place that is nobody's. */"],
  ["comments avoid", "src/kernel/marks.ts", "/** Drops what is no bytes. */"],
  ["comments avoid", "src/kernel/marks.ts", "/** Lists the paths, as there. */"],
  ["comments avoid", "src/kernel/marks.ts", "/** Runs beside the streams. */"],
  ["a type is named", "src/kernel/marks.ts", "export interface Told {}"],
  ["a type is named", "src/kernel/marks.ts", "/** A thing. */\ntype HeldThing = 1;"],
  ["a type is named", "src/kernel/marks.ts", "export abstract class GivenValue {}"],
  ["a type is named", "assembly/arena.ts", "export class Scheduled {}"],
];

/** Files that no rule may report. */
const good: readonly SourceFile[] = [
  {
    path: "src/servers/openai/front/cors.ts",
    text: '/**\n * Lists the allowed origins,\n * Of the same kind.\n */\n// A long comment continues:\n// It is one comment.\nconst Of = "// It is a text";',
  },
  {
    path: "bench/flood.ts",
    text: `/**\n * Cuts streams.\n *\n *   bun run bench flood${" [--flag value]".repeat(20)}\n *\n * | ${"a cell ".repeat(40)}|\n */`,
  },
  {
    path: "src/base/clock.ts",
    text: `/** Reads \`${"a long piece of code ".repeat(9)}\`. As there are two clocks, the flag is \`--beside\`. */`,
  },
  {
    path: "src/engine/feed.ts",
    text: "/** Feeds. */\nexport interface Feed {}\ninterface SeenAnswer {}\ntype Speed = 1;",
  },
];

test.each(bad)("%s: a violation in %s is noticed: %j", (name, path, text) => {
  const rule = wordRules.find((candidate) => candidate.name.startsWith(name))!;
  expect(rule.applies(path)).toBe(true);
  expect(rule.wrong({ path, text })).toBeTruthy();
});

test("every rule has a bad example, and good files pass all", () => {
  for (const { name } of wordRules)
    expect(
      bad.some(([rule]) => name.startsWith(rule)),
      name,
    ).toBe(true);
  for (const file of good) {
    for (const { name, applies, wrong } of wordRules) {
      expect(applies(file.path) && wrong(file), `${name}: ${file.path}`).toBeFalsy();
    }
  }
});

test("comments are split into sentences, without commands, tables and code", () => {
  const comment = [
    "Runs a bench. Prints `a. b`, then ends.",
    "",
    "  bun run bench. No sentence.",
    "",
    "Parts:",
    "- first one. Second one!",
    "- third",
    "",
    "| a | b. c |",
    "",
    "```",
    "code. more code",
    "```",
  ].join("\n");
  const sentences = ["Runs a bench.", "Prints code, then ends.", "Parts:", "- first one.", "Second one!", "- third"];
  expect(sentencesOf(comment)).toEqual(sentences);
});

test("words are counted without signs that stand alone", () => {
  expect(wordsIn("Returns none - or 3 others.")).toBe(5);
});

test("participles are recognized with and without a filler noun", () => {
  const names = ["Told", "HeldThing", "GivenValue", "Served", "Resolved", "Making", "FoundOnes"];
  expect(names.filter((name) => !isParticiple(name))).toEqual([]);
  const nouns = ["Feed", "Speed", "Seed", "FoundOption", "Timing", "Settings", "Bed", "ParsedOutput"];
  expect(nouns.filter(isParticiple)).toEqual([]);
});
