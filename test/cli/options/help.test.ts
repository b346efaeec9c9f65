/** Tests `understudy serve --help`: its first screen, the groups of options, and the list of all options. */
import { expect, test } from "bun:test";
import { optionsMarkdown, serveHelp, tritonHelp } from "../../../src/cli/options/help.ts";
import type { OptionRow } from "../../../src/cli/options/option.ts";
import { serveOptions } from "../../../src/cli/options/serve-options.ts";
import { tritonServerOptions } from "../../../src/cli/options/triton-server-options.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";

test("help and documentation have every option with its default, and the address on which the server listens", () => {
  const help = resolveServeConfig(["--port", "1", "--help=all"], {}, () => "");
  if (!("help" in help)) throw new Error("no help");
  const markdown = optionsMarkdown();
  for (const [name, row] of Object.entries(serveOptions)) {
    expect(help.help).toContain(`${name}`);
    expect(markdown).toContain(`${name}`);
    expect(markdown).toContain(`| ${row.default} |`);
  }
  expect(help.help).toContain("127.0.0.1 unless --host");
  expect(help.help.split("\n").every((line) => line.length <= 110)).toBe(true);
  expect(serveHelp("watermark")).not.toContain("--port");
  expect(serveHelp("scheduler")).toContain("--max-num-seqs");
  expect(serveHelp("quantization")).toContain("Accepted without effect");
  expect(serveHelp("frobnicate")).toContain("No option");
});

test("the first screen of --help has the usage, five valid commands, and every group of options", () => {
  const screens = [serveHelp(), tritonHelp()];
  for (const [at, table] of [serveOptions, tritonServerOptions].entries()) {
    const screen = screens[at]!;
    expect(screen.split("\n").length).toBeLessThan(30);
    expect(Math.max(...screen.split("\n").map((line) => line.length))).toBeLessThanOrEqual(115);
    expect(screen).toStartWith("usage: understudy serve ");
    const commands = screen.match(/^ {2}understudy serve.*?(?= {2})/gm)!.map((line) => line.trim().split(" ").slice(2));
    expect(commands).toHaveLength(5);
    for (const words of commands) {
      const started = resolveServeConfig(
        words.map((word) => word.replace("DIR", "examples/triton")),
        {},
        () => "",
      );
      expect("config" in started || started).toBe(true);
    }
    const words = [...screen.matchAll(/--help=(\S+) +(.+): (\d+) options/g)];
    const help = at === 0 ? serveHelp : tritonHelp;
    for (const [, word = "", group, count] of words) {
      const listed = help(word)
        .split("\n\n")
        .find((part) => part.startsWith(`${group}\n`))!;
      expect(listed.match(/^ {2}--/gm)).toHaveLength(Number(count));
    }
    expect(words.map(([, , group]) => group)).toEqual([
      ...new Set(Object.values<OptionRow>(table).map(({ group }) => group)),
    ]);
  }
});
