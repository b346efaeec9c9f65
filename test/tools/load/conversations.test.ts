/** Tests that each turn carries the conversation so far exactly once, for all forms of datasets and all APIs. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ConversationMessage, Turn } from "../../../src/tools/load/requests/types.ts";
import { Turns } from "../../../src/tools/load/turns.ts";
import { type HostedServer, hosted } from "../../hosted.ts";
import { main } from "../../program.ts";

const turn = (prompt: Turn["prompt"], changes: Partial<Turn> = {}): Turn => ({
  conversation: "a",
  prompt,
  inputTokens: null,
  outputTokens: null,
  arrivalUs: null,
  thinkUs: 0,
  extra: {},
  ...changes,
});
const user = (content: string): ConversationMessage => ({ role: "user", content });
const assistant = (content: string): ConversationMessage => ({ role: "assistant", content });

test("a turn that is the whole conversation replaces the history, and later turns continue it", () => {
  const conversation = [user("one"), assistant("recorded"), user("two")];
  const all = [turn("one"), turn(conversation, { whole: true }), turn("three")];
  const turns = new Turns(all, "t", false);
  const first = turns.next();
  if (first === null || typeof first === "string") throw new Error("it was not given");
  expect(first.history).toEqual([]);
  const second = turns.answered(first.turn, "answer", 5)!;
  expect([second.turn.prompt, second.history]).toEqual([conversation, []]);
  const third = turns.answered(second.turn, "live", 9)!;
  expect(third.history).toEqual([...conversation, assistant("live")]);
});

describe("against a server", () => {
  const folder = mkdtempSync(join(tmpdir(), "understudy-talks-"));
  let server: HostedServer;
  beforeAll(async () => {
    server = await hosted(["--timing", "none", "talks/model"]);
  });
  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true });
  });

  /** Returns the input tokens of each request, in the order of sending. */
  async function inputs(...argv: string[]): Promise<number[]> {
    const flags = ["--url", server.url, "--save-detailed", "--json", "r.json", "--concurrency", "1", ...argv];
    const child = Bun.spawn([process.execPath, main, "load", ...flags], {
      cwd: folder,
      stdout: "pipe",
      stderr: "pipe",
    });
    const [err, code] = await Promise.all([child.stderr.text(), child.exited]);
    expect([code, err]).toEqual([0, ""]);
    const rows = readFileSync(join(folder, "r.requests.jsonl"), "utf8").trim().split("\n");
    const found = rows.map((row) => JSON.parse(row) as { send_s: number; input_tokens: number; error: unknown });
    expect(found.map(({ error }) => error)).toEqual(found.map(() => null));
    return found.toSorted((a, b) => a.send_s - b.send_s).map(({ input_tokens: tokens }) => tokens);
  }

  test.each(["openai-chat", "openai"])(
    "%s: each turn of multi_turn is longer by its own words and the answer before it",
    async (backend) => {
      const shape = [
        "--turns",
        "4",
        "--think-time",
        "0ms",
        "--input-len",
        "50",
        "--output-len",
        "20",
        "--num-prompts",
        "4",
      ];
      const tokens = await inputs("--backend", backend, "--dataset-name", "multi_turn", ...shape);
      expect(tokens).toHaveLength(4);
      expect(Math.abs(tokens[0]! - 50)).toBeLessThanOrEqual(8);
      // Templates add a few tokens per message, and the text of an answer may have another number of tokens when it is
      // tokenized.
      for (let i = 1; i < 4; i++) expect(Math.abs(tokens[i]! - tokens[i - 1]! - 70)).toBeLessThanOrEqual(14);
    },
  );

  test.each(["openai-chat", "openai"])("%s: sessions of a trace, of lengths and of texts", async (backend) => {
    const rows = [
      { session_id: "a", input_length: 40, output_length: 10, hash_ids: [1] },
      { session_id: "a", input_length: 30, output_length: 10, delay: 1 },
      { session_id: "a", text_input: "and now", output_length: 10 },
    ];
    writeFileSync(join(folder, "trace.jsonl"), rows.map((row) => JSON.stringify(row)).join("\n"));
    const tokens = await inputs(
      "--backend",
      backend,
      "--dataset-name",
      "mooncake",
      "--dataset-path",
      "trace.jsonl",
      "--no-fixed-schedule",
    );
    expect(tokens).toHaveLength(3);
    for (const [i, added] of [40, 40, 12].entries()) {
      expect(Math.abs(tokens[i]! - (tokens[i - 1] ?? 0) - added)).toBeLessThanOrEqual(14);
    }
  });
});
