/**
 * Checks the journal of a core that broke, and that replaying it breaks again. The error is provoked through the server's own
 * calls.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seeded } from "../../src/base/random.ts";
import { VirtualClock } from "../../src/base/virtual-clock.ts";
import { type Crash, readCrash, repeatCrash } from "../../src/cli/serve/crash.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { Generation, Submission } from "../../src/engine/interface/types.ts";
import { CALLS, Journal, type JournalText } from "../../src/engine/journal.ts";
import { replayJournal } from "../../src/engine/repeat.ts";
import { main } from "../program.ts";
import { answers, configOf, debug, EOS, generationOf, promptOf, release } from "./simulated-engine.ts";

const folder = mkdtempSync(join(tmpdir(), "understudy-crash-"));
afterAll(() => rmSync(folder, { recursive: true }));
// Builds dist/ for Node.
beforeAll(() => void Bun.spawnSync([process.execPath, "scripts/build.ts", "--library"], { cwd: root }), 60_000);
const root = new URL("../../", import.meta.url).pathname;
const config = configOf({ numGpuBlocks: 40, maxModelLen: 256 });
const extras = { eosId: EOS, answers };

/**
 * A busy engine with a small pool and disconnecting clients; then an error that only a bug of ours could cause: a
 * request without room for a token.
 */
function broken(journal: Journal, requests: number): Error {
  const clock = new VirtualClock();
  const engine = new Engine({ config, clock, module: release, free: false, ...extras, journal });
  const random = seeded(requests);
  const below = (limit: number) => random() % limit;
  const receiver = { onTokens() {} };
  const submit = (changes: Partial<Generation>) => engine.submit(generationOf(changes), receiver) as Submission;
  // A client disconnects while nothing runs.
  engine.pause("keep");
  submit({}).cancel();
  engine.resume();
  for (let i = 0; i < requests; i++) {
    clock.at(i * 3000, () => {
      const script = below(5) === 0 ? { script: Uint32Array.from({ length: 90 }, (_, at) => at) } : {};
      const blocked = below(8) === 0;
      const promptIds = promptOf(1 + below(120), below(4));
      const submission = submit({ promptIds, maxTokens: 1 + below(100), blocked, ...script });
      if (blocked) clock.at(clock.now() + 5000, () => submission.release());
      if (below(4) === 0) clock.at(clock.now() + below(50_000), () => submission.cancel());
      if (below(20) === 0) engine.resetPrefixCache(true);
      if (below(20) === 0) {
        engine.pause("keep");
        clock.at(clock.now() + 2000, () => engine.resume());
      }
    });
  }
  clock.until(requests * 3000);
  try {
    submit({ maxTokens: 0 });
  } catch (error) {
    return error as Error;
  }
  throw new Error("it did not break");
}

const trapOf = (text: JournalText, module = debug) => replayJournal(module, config, extras, text);

describe("the journal", () => {
  test("is complete for a young core, and its replay breaks at the same command", () => {
    const journal = new Journal();
    const error = broken(journal, 60);
    const text = journal.text();
    expect([text.forgotten, text.remembered]).toEqual([0, []]);
    expect(text.commands.at(-1)).toMatchObject({ call: "add", handle: -1 });
    expect([...new Set(text.commands.map(({ call }) => call))].toSorted()).toEqual([...CALLS].toSorted());
    for (const module of [debug, release]) {
      const { commandsRun, skipped, differentHandles, trap } = trapOf(text, module);
      expect([commandsRun, skipped, differentHandles]).toEqual([text.commands.length, 0, 0]);
      expect(trap!.error.message).toBe(error.message);
      expect(trap!.command).toBe(text.commands.at(-1)!);
    }
  });

  test("for an old core has the last commands in bounded memory, and the live requests from the core's memory", () => {
    const journal = new Journal(2 ** 10, 2 ** 9);
    const error = broken(journal, 400);
    const { forgotten, remembered, commands } = journal.text();
    expect(forgotten).toBeGreaterThan(500);
    expect(commands.length).toBeLessThanOrEqual(2 ** 10 / 5);
    expect(commands.reduce((sum, { words }) => sum + (words?.length ?? 0), 0)).toBeLessThanOrEqual(2 ** 9);
    expect(remembered.length).toBeGreaterThan(0);
    const added = new Set(commands.map(({ handle }) => handle));
    for (const { handle, promptTokens, maxTokens } of remembered) {
      expect(added.has(handle)).toBe(false);
      expect([promptTokens, maxTokens].every((count) => count >= 1 && count <= 120)).toBe(true);
    }
    const { trap } = trapOf({ forgotten, remembered, commands });
    expect(trap!.error.message).toBe(error.message);
  });

  test("keeps a prompt that is longer than its memory without its words", () => {
    const journal = new Journal(2 ** 10, 2 ** 4);
    broken(journal, 20);
    const adds = journal.text().commands.filter(({ call }) => call === "add");
    expect(adds.some(({ words }) => words === null)).toBe(true);
    expect(trapOf(journal.text()).trap).not.toBeNull();
  });
});

/** A server with a bug that no client can cause: its third step or third request submits a request without room for a token. */
const buggy = (where: "plan" | "add") => `
  import { Batch } from ${JSON.stringify(`${root}src/engine/batch.ts`)};
  import { runServe } from ${JSON.stringify(`${root}src/cli/serve/serve.ts`)};
  const { ${where}: real, add } = Batch.prototype;
  let calls = 0;
  const nothing = { prompt: [1], promptTokens: 1, maxTokens: 0, minTokens: 0, eosAt: 0, stopTokenIds: [], seed: 0, priority: 0,
    adapter: 0, saltLo: 0, saltHi: 0, flags: 0, order: 1e9, arrivalUs: 0, queuedUs: 0 };
  Batch.prototype.${where} = function (given) {
    if (++calls === 3) add.call(this, nothing);
    return real.call(this, given);
  };
  await runServe(["--port", "0", "--served-model-name", "m", "--timing", "constant:ttft=5ms,itl=5ms", "--seed", "7"]);`;

describe("a server", () => {
  test.each(["plan", "add"] as const)(
    "whose core breaks in %s cuts its streams, exits with 70, and writes a file that reproduces it in Bun and Node",
    async (where) => {
      const cwd = mkdtempSync(join(folder, "server-"));
      writeFileSync(join(cwd, "server.ts"), buggy(where));
      const child = Bun.spawn([process.execPath, "server.ts"], { cwd, stdout: "pipe", stderr: "pipe" });
      let out = "";
      const url = Promise.withResolvers<string>();
      void (async () => {
        for await (const piece of child.stdout) {
          out += new TextDecoder().decode(piece);
          const found = /http:\/\/127\.0\.0\.1:\d+/.exec(out);
          if (found) url.resolve(found[0]);
        }
      })();
      const base = await url.promise;
      const headers = { "content-type": "application/json" };
      const ask = async (stream: boolean) => {
        const body = JSON.stringify({ model: "m", prompt: "Hello", max_tokens: 300, ignore_eos: true, stream });
        const response = await fetch(`${base}/v1/completions`, { method: "POST", body, headers });
        return response.text();
      };
      const answers = await Promise.allSettled([ask(true), ask(false), ask(true)]);
      // A stream that is cut must be an error for its client, not an end.
      for (const answer of answers) {
        if (answer.status === "fulfilled") expect(answer.value).not.toContain("[DONE]");
      }
      expect(await child.exited).toBe(70);
      const err = await new Response(child.stderr).text();
      const [name] = readdirSync(cwd).filter((file) => file.startsWith("understudy-crash-"));
      expect(err).toContain("malformed submission (assembly/submit.ts:");
      expect(err).toContain(`/bin/understudy replay --crash ${name}`);
      const crash = readCrash(join(cwd, name!)) as Crash;
      expect(crash).toMatchObject({ crash: 1, engine: { seed: 7 }, journals: [{ forgotten: 0 }] });
      expect(crash.snapshots[0]).toHaveProperty("generationTokens");

      const repeated = (command: string[]) => {
        const { exitCode, stdout } = Bun.spawnSync(command, { cwd: root });
        return { exitCode, lines: stdout.toString() };
      };
      const file = join(cwd, name!);
      for (const command of [
        [process.execPath, main, "replay", "--crash", file],
        ["node", "build/npm/llm-understudy/dist/replay-crash.cjs", file],
      ]) {
        const { exitCode, lines } = repeated(command);
        expect(lines).toContain("malformed submission (assembly/submit.ts:");
        expect(lines).toContain("the whole life of its core");
        expect(lines).toContain("trapped in add(promptTokens 1, maxTokens 0,");
        expect(lines).not.toContain("another history");
        expect(exitCode).toBe(70);
      }
    },
  );
});

describe("understudy replay --crash", () => {
  const tried = (...argv: string[]) => {
    const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, main, "replay", ...argv], { cwd: folder });
    return { exitCode, out: stdout.toString(), err: stderr.toString().trimEnd() };
  };
  test.each([
    [["--crash", "nowhere.json"], 'cannot read "nowhere.json" (ENOENT)'],
    [["--crash", "other.json"], "other.json: expected a file that understudy wrote when its core trapped"],
    [["--crash", "text"], "text: expected a file that understudy wrote"],
    [["--crash", "other.json", "--seed", "3"], "--crash FILE: takes no other options"],
    [["--crash"], "--crash: needs a value"],
  ])("%j prints one line and exits with 2", (argv, line) => {
    writeFileSync(join(folder, "other.json"), '{"schema": 1}');
    writeFileSync(join(folder, "text"), "text");
    const { exitCode, out, err } = tried(...argv);
    expect([exitCode, out]).toEqual([2, ""]);
    expect(err).toStartWith("understudy replay: ");
    expect(err).toContain(line);
    expect(err.split("\n")).toHaveLength(1);
  });

  test("commands that break nothing are reported as such, with exit code 0", () => {
    const journal = new Journal();
    broken(journal, 40);
    const { commands } = journal.text();
    const crash = {
      crash: 1,
      version: "9.9.9",
      error: "e",
      stack: "",
      eosId: EOS,
      engine: config,
      addFields: [],
      snapshots: [],
    };
    const text = { forgotten: 0, remembered: [], commands: commands.slice(0, -1) };
    const { lines, trapped } = repeatCrash({ ...crash, journals: [text] } as Crash, "1.2.3", debug, answers);
    expect(trapped).toBe(false);
    expect(lines[0]).toContain("version 9.9.9; this is 1.2.3");
    expect(lines.at(-1)).toBe(`  ran: ${commands.length - 1} commands; no trap`);
  });
});
