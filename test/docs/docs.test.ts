/** Checks the documentation: its index, links, anchors, commands and the paths that it names. */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { anchorsOf, linksOf } from "../../scripts/page-links.ts";
import { checkHelp } from "../../src/cli/check/check-options.ts";
import { frontHelp } from "../../src/cli/front/front-options.ts";
import { healthHelp } from "../../src/cli/health/health-options.ts";
import { kvCheckHelp } from "../../src/cli/kv-check/kv-check-options.ts";
import { takeLoadArguments } from "../../src/cli/load/load-args.ts";
import { serveHelp } from "../../src/cli/options/help.ts";
import { proxyHelp } from "../../src/cli/proxy/proxy-options.ts";
import { replayHelp } from "../../src/cli/replay/replay-options.ts";
import { readTritonReplay } from "../../src/cli/replay/replay-triton.ts";
import { resolveServeConfig, takeFlag } from "../../src/cli/serve/resolve.ts";
import { stressHelp } from "../../src/cli/stress/stress-options.ts";
import { timingHelp } from "../../src/cli/timing/timing-options.ts";
import { truthHelp } from "../../src/cli/truth/truth-options.ts";
import { FAULT_IDS } from "../../src/faults/ids.ts";
import { readFixtures } from "../../src/text/canned/fixtures/form.ts";
import { laws } from "../../src/tools/check/index.ts";

const root = new URL("../../", import.meta.url);
const pages = [...new Bun.Glob("docs/**/*.md").scanSync(root.pathname)].sort();
const documents = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", ...pages];
const read = (path: string) => readFileSync(new URL(path, root), "utf8");

test("the index names every page, with a line on each", () => {
  const list = read("docs/README.md").split("## All pages\n")[1]!;
  const named = [...list.matchAll(/^\| \[([\w-]+\.md)\]\(([\w/-]+\/\1)\) \| .{10,} \|$/gm)].map(
    ([, , page]) => `docs/${page}`,
  );
  expect(named.sort()).toEqual(pages.filter((page) => page !== "docs/README.md"));
});

test("each use in the README has a heading in the index", () => {
  const headings = [...read("docs/README.md").matchAll(/^## I test (.*)$/gm)].map(([, question]) => question!);
  const uses = [
    ...read("README.md").matchAll(/^\*\*\d\. Test \[([^\]]+)\]\(docs\/README\.md#.*\n\n```sh\n.+\n```$/gm),
  ].map(([, use]) => use!);
  expect(headings).toHaveLength(6);
  expect(uses).toEqual(headings);
});

describe.each(documents)("%s", (path) => {
  const text = read(path);

  test("every link leads to an existing file and heading", () => {
    const wrong = linksOf(text).filter(({ file, anchor }) => {
      const to = file === "" ? new URL(path, root) : new URL(file, new URL(path, root));
      return !existsSync(to) || (anchor !== "" && !anchorsOf(readFileSync(to, "utf8")).has(anchor));
    });
    expect(wrong).toEqual([]);
  });

  test("every path of the repository that the page names exists", () => {
    const named = text.matchAll(
      /(?<![\w./:-])(?:src|assembly|bin|bench|deploy|docs|examples|scripts|test|\.ci)\/[\w./-]*/g,
    );
    const wrong = [...named]
      .map(([name]) => name.replace(/\.+$/, ""))
      .filter((name) => !existsSync(new URL(name, root)));
    expect(wrong).toEqual([]);
  });

  test("the commands of the page are accepted", () => {
    const wrong = commandsOf(text).flatMap(([command, ...words]) => {
      const error = refusal(command!, words);
      return error === undefined ? [] : [`${command} ${words.join(" ")}: ${error}`];
    });
    expect(wrong).toEqual([]);
  });
});

test("the fixtures of the pages are accepted", () => {
  const blocks = documents.flatMap((path) =>
    [...read(path).matchAll(/^( *)```yaml\n([\s\S]*?)^ *```/gm)].map(([, indent, text]) =>
      text!.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
    ),
  );
  const fixtures = blocks.filter((text) => /^(fixtures|- match|match):/m.test(text));
  expect(fixtures.length).toBeGreaterThan(3);
  for (const text of fixtures) {
    const whole = text.startsWith("- ") ? `fixtures:\n${text}` : text;
    expect(readFixtures(whole, { vocabularySize: 100, plays: [] }).length).toBeGreaterThan(0);
  }
});

test("the numbers of faults and laws in sentences are right", () => {
  const wanted: Readonly<Record<string, number>> = { faults: FAULT_IDS.length, laws: laws.length };
  const mentions = documents.flatMap((path) =>
    [...read(path).matchAll(/\b(\d{2,}) (faults|laws)\b/g)].map(([text, count, kind]) => ({
      path,
      text,
      count,
      kind: kind!,
    })),
  );
  // A plan has at most 32 faults.
  const ofAll = mentions.filter(({ text }) => text !== "32 faults");
  expect(ofAll.length).toBeGreaterThan(3);
  expect(ofAll.filter(({ count, kind }) => Number(count) !== wanted[kind])).toEqual([]);
});

test("unknown flags are refused, and anchors of headings are derived like on GitHub", () => {
  const [serve, check] = commandsOf("```sh\n./bin/understudy serve --prot 1 &\nunderstudy check --fro x # why\n```");
  expect(refusal(serve![0]!, serve!.slice(1))).toContain("--prot");
  expect(refusal(check![0]!, check!.slice(1))).toContain("--fro");
  expect(anchorsOf("## `--fix`, and the model's name")).toEqual(new Set(["--fix-and-the-models-name"]));
});

/** Returns the words of each `understudy …` command in blocks of shell commands, without the program's name. */
function commandsOf(text: string): string[][] {
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, block]) => block!);
  return blocks
    .flatMap((block) =>
      block
        .replaceAll(/ *\\\n */g, " ")
        // Replace the results of shell expressions: a time in seconds, a timing.
        .replaceAll(/\$\(\(.*\)\)/g, "1")
        .replaceAll(/"\$\([^)]*\)"/g, "none")
        .split("\n")
        .flatMap(
          (line) => /^(?:\w+=\S+ )*(?:\.\/bin\/|npx |node_modules\/\.bin\/)?understudy (.*)/.exec(line)?.[1] ?? [],
        )
        .map((line) => line.replace(/ #.*$/, "").replace(/ &$/, "")),
    )
    .map((line) =>
      [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, single, double, bare]) => single ?? double ?? bare!),
    );
}

const HELP: Readonly<Record<string, () => string>> = {
  replay: replayHelp,
  check: checkHelp,
  "kv-check": kvCheckHelp,
  timing: timingHelp,
  stress: stressHelp,
  front: frontHelp,
  proxy: proxyHelp,
  truth: truthHelp,
  health: healthHelp,
  fault: () => "",
  completion: () => "",
  man: () => "",
};

/**
 * Returns the error with which the command refuses the words. For commands whose options are read only by a run, it looks the
 * flags up in the help text and returns the first unknown one.
 */
function refusal(command: string, words: readonly string[]): string | undefined {
  if (command === "serve") return errorOf(resolveServeConfig(words, {}, () => ""));
  const role = takeFlag(words, "role", undefined);
  if (command === "replay" && role.value === "triton") return errorOf(readTritonReplay(role.rest));
  if (command === "load") return errorOf(takeLoadArguments(words));
  const help = HELP[command]?.();
  // Words after -- belong to another program.
  if (words.includes("--")) return refusal(command, words.slice(0, words.indexOf("--")));
  if (help === undefined) return "no such command";
  // All commands here except `check` may also take flags of `serve`.
  const known = command === "check" ? help : help + serveHelp("all");
  const flags = words.filter((word) => word.startsWith("--")).map((word) => word.split("=")[0]!);
  return flags.find((flag) => !known.split(/[\s,[]/).includes(flag));
}

function errorOf(taken: object): string | undefined {
  return "error" in taken ? String(taken.error) : undefined;
}
