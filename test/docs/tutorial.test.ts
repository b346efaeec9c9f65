/**
 * Runs the pages of docs/tutorial as a reader would: saves their files, starts their servers, runs their commands, and
 * compares what these print with the page. In a page's `text` block, `…` stands for any text, and numbers may differ.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type HostedServer, hosted } from "../hosted.ts";
import { main } from "../program.ts";
import { hostTriton } from "../triton/child.ts";

setDefaultTimeout(300_000);

const tutorials = new URL("../../docs/tutorial/", import.meta.url).pathname;
const pages = [...new Bun.Glob("*.md").scanSync(tutorials)].sort();
const folder = mkdtempSync(join(tmpdir(), "understudy-tutorial-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A part of a page: a file to save, a server to start, a command to run, or what the last command prints. */
type Part =
  | { readonly file: string; readonly text: string }
  | { readonly serve: string }
  | { readonly command: string; readonly fails: boolean }
  | { readonly prints: string };

function partsOf(page: string): Part[] {
  return [...page.matchAll(/([^\n]*)\n\n```(\w+)\n([\s\S]*?)^```(?=\n\n([^\n]*))/gm)].flatMap(
    ([, before = "", language, text = "", after = ""]): Part[] => {
      const file = /[Ss]ave (?:it|this) as `([^`]+)`/.exec(before)?.[1];
      if (file !== undefined) return [{ file, text }];
      if (language === "text") return [{ prints: text }];
      if (language !== "sh" || text.startsWith("npx ")) return [];
      const serve = /^\.\/bin\/understudy serve (.*)\n$/.exec(text)?.[1];
      return [serve === undefined ? { command: text, fails: after.includes("exit code 1") } : { serve }];
    },
  );
}

/** Returns a pattern for a printed line: `…` is any text, and numbers and blanks may differ. */
function patternOf(line: string): RegExp {
  const parts = line.split("…").map((part) =>
    part
      .replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
      .replace(/\d+(\\\.\d+)?/g, "[\\d.,]+")
      .replace(/ +/g, " +"),
  );
  return new RegExp(parts.join(".*"));
}

/** Starts the server of a page in the folder, on free ports. */
function start(flags: string, cwd: string): Promise<HostedServer> {
  const words = [...flags.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare!);
  const at = words.indexOf("--model-repository");
  if (at !== -1) words[at + 1] = join(cwd, words[at + 1]!);
  const role = words.indexOf("--role");
  return role === -1 ? hosted(words) : hostTriton(words.toSpliced(role, 2));
}

test.each(pages)("%s", async (name) => {
  const cwd = join(folder, name);
  mkdirSync(join(cwd, "bin"), { recursive: true });
  writeFileSync(join(cwd, "bin/understudy"), `#!/bin/sh\nexec ${process.execPath} ${main} "$@"\n`);
  chmodSync(join(cwd, "bin/understudy"), 0o755);
  let server: HostedServer | undefined;
  let printed = "";
  const atServer = (text: string) => text.replaceAll("http://127.0.0.1:8000", server?.url ?? "http://127.0.0.1:8000");
  const parts = partsOf(readFileSync(tutorials + name, "utf8"));
  expect(parts.length).toBeGreaterThan(3);
  for (const part of parts) {
    if ("file" in part) {
      mkdirSync(dirname(join(cwd, part.file)), { recursive: true });
      writeFileSync(join(cwd, part.file), atServer(part.text));
    } else if ("serve" in part) {
      await server?.stop(0);
      server = await start(part.serve, cwd);
    } else if ("command" in part) {
      const child = Bun.spawn(["sh", "-c", atServer(part.command)], { cwd, stdout: "pipe", stderr: "pipe" });
      const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
      expect({ command: part.command, code, err: code === 0 || part.fails ? "" : out + err }).toEqual({
        command: part.command,
        code: part.fails ? 1 : 0,
        err: "",
      });
      printed = out + err;
    } else {
      for (const line of part.prints.trimEnd().split("\n")) {
        if (!patternOf(line).test(printed)) expect(printed).toContain(line);
      }
    }
  }
  await server?.stop(0);
});
