/**
 * Tests answers that are ordered as parts of reasoning and content: in a request, in a file of scripts, and in a fixture; in
 * each dialect.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PARTS_MOST } from "../../src/text/answers/answer-parts.ts";
import { type HostedServer, hosted } from "../hosted.ts";

setDefaultTimeout(60_000);

type Part = { readonly reasoning: string } | { readonly content: string };
const PARTS: readonly Part[] = [
  { reasoning: "First, the umlauts: ü" },
  { content: "ber 🦔s" },
  { reasoning: "Then the rest" },
  { content: " and more" },
  { content: "." },
];
const saidIn = (kind: string) => PARTS.map((part) => (part as Record<string, string>)[kind] ?? "").join("");

const folder = mkdtempSync(join(tmpdir(), "understudy-parts-"));
const servers: HostedServer[] = [];
beforeAll(async () => {
  const script = join(folder, "scripts.json");
  writeFileSync(script, JSON.stringify({ scripts: [{ name: "turns", parts: PARTS }, { parts: PARTS.slice(0, 2) }] }));
  const fixture = { match: { user: "fixture" }, answer: { parts: PARTS, finish: "length" } };
  writeFileSync(join(folder, "one.yaml"), JSON.stringify(fixture));
  const flags = ["--timing", "none", "--served-model-name", "m", "--script", script, "--fixtures", folder];
  const parsers = ["--reasoning-parser", "qwen3", "--tool-call-parser", "hermes", "--enable-auto-tool-choice"];
  servers.push(await hosted([...flags, ...parsers]), await hosted(flags));
});
afterAll(async () => {
  await Promise.all(servers.map((server) => server.stop()));
  rmSync(folder, { recursive: true });
});

async function ask(server: HostedServer, path: string, body: object, user = "x") {
  const chatInput = path === "/v1/completions" ? { prompt: user } : { messages: [{ role: "user", content: user }] };
  const input = path === "/v1/responses" ? { input: user } : chatInput;
  const response = await fetch(server.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", max_tokens: 200, ...input, ...body }),
  });
  return response;
}

const eventsOf = async (response: Response) =>
  (await response.text())
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice(6)));

/** Joins neighbouring pieces of the same kind. */
function turnsOf(pieces: readonly (readonly [kind: string, text: string])[]): (readonly [string, string])[] {
  const turns: [string, string][] = [];
  for (const [kind, text] of pieces)
    if (turns.at(-1)?.[0] === kind) turns.at(-1)![1] += text;
    else turns.push([kind, text]);
  return turns;
}

const WANTED = turnsOf(PARTS.map((part) => Object.entries(part)[0]!));
const ORDER = { understudy: { script: { parts: PARTS } } };

test.each([0, 1])(
  "chat, server %d: a chunk has reasoning or content, and a whole answer has all of both",
  async (at) => {
    const chunks = await eventsOf(await ask(servers[at]!, "/v1/chat/completions", { stream: true, ...ORDER }));
    const deltas = chunks.map(({ choices }) => choices[0].delta as Record<string, string>);
    expect(deltas.filter(({ content, reasoning }) => content && reasoning)).toEqual([]);
    const pieces = deltas.flatMap((delta) => Object.entries(delta).filter(([kind, text]) => kind !== "role" && text));
    expect(turnsOf(pieces)).toEqual(WANTED);
    expect(chunks.at(-1).choices[0].finish_reason).toBe("stop");
    const { choices, usage } = (await (await ask(servers[at]!, "/v1/chat/completions", ORDER)).json()) as {
      choices: { message: { content: string; reasoning: string } }[];
      usage: { completion_tokens: number; completion_tokens_details?: { reasoning_tokens: number } };
    };
    const { content, reasoning } = choices[0]!.message;
    expect([content, reasoning]).toEqual([saidIn("content"), saidIn("reasoning")]);
    const thought = usage.completion_tokens_details?.reasoning_tokens;
    if (at === 0) expect(thought! > 3 && thought! < usage.completion_tokens - 3).toBe(true);
    const hidden = await ask(servers[at]!, "/v1/chat/completions", { ...ORDER, include_reasoning: false });
    expect(((await hidden.json()) as typeof ORDER & { choices: typeof choices }).choices[0]!.message).toMatchObject({
      content: saidIn("content"),
      reasoning: null,
    });
  },
);

test("parts may come from a script of the file, by name or in turn, and from a fixture with its finish reason", async () => {
  for (const [body, user, wanted, finish] of [
    [{ understudy: { play: "turns" } }, "x", WANTED, "stop"],
    [{}, "x", WANTED.slice(0, 2), "stop"],
    [{}, "fixture", WANTED, "length"],
  ] as const) {
    const chunks = await eventsOf(await ask(servers[0]!, "/v1/chat/completions", { stream: true, ...body }, user));
    const pieces = chunks.flatMap(({ choices }) =>
      Object.entries(choices[0].delta as Record<string, string>).filter(([kind, text]) => kind !== "role" && text),
    );
    expect(turnsOf(pieces)).toEqual(wanted);
    expect(chunks.at(-1).choices[0].finish_reason).toBe(finish);
  }
});

test("messages have a block per part, responses an item per part, and a completion has all parts as text", async () => {
  const messages = await eventsOf(await ask(servers[0]!, "/v1/messages", { stream: true, ...ORDER }));
  const blocks = messages.flatMap(({ type, delta }) =>
    type !== "content_block_delta" || delta.type === "signature_delta"
      ? []
      : [[delta.thinking === undefined ? "content" : "reasoning", delta.thinking ?? delta.text] as const],
  );
  expect(turnsOf(blocks)).toEqual(WANTED);
  expect(messages.filter(({ type }) => type === "content_block_start").length).toBe(WANTED.length);
  const responses = await eventsOf(await ask(servers[0]!, "/v1/responses", { stream: true, ...ORDER }));
  const items = responses.flatMap(({ type, delta }) => {
    const kind = /^response\.(output|reasoning)_text\.delta$/.exec(type)?.[1];
    return kind === undefined ? [] : [[kind === "output" ? "content" : "reasoning", delta] as const];
  });
  expect(turnsOf(items)).toEqual(WANTED);
  const completion = (await (await ask(servers[0]!, "/v1/completions", ORDER)).json()) as {
    choices: { text: string }[];
  };
  expect(completion.choices[0]!.text).toBe(PARTS.map((part) => Object.values(part)[0]).join(""));
});

test("the limit of tokens cuts parts", async () => {
  const cut = (await (await ask(servers[0]!, "/v1/chat/completions", { ...ORDER, max_tokens: 3 })).json()) as {
    choices: { message: { content: string | null; reasoning: string }; finish_reason: string }[];
  };
  expect(cut.choices[0]!.finish_reason).toBe("length");
  expect(saidIn("reasoning").startsWith(cut.choices[0]!.message.reasoning)).toBe(true);
  expect(cut.choices[0]!.message.content).toBeNull();
});

test.each([
  [{ parts: [] }, `script.parts: must be a list of 1 to ${PARTS_MOST} parts`],
  [{ parts: [{ content: "x" }, { text: "y" }] }, "script.parts[1] must be"],
  [{ parts: [{ content: "x", reasoning: "y" }] }, "script.parts[0] must be"],
  [{ parts: [{ content: "" }] }, "script.parts[0] must be"],
  [{ parts: [{ content: "x" }], sequences: [] }, 'script: only one of "parts" and "sequences"'],
])("invalid parts get 400: %j", async (script, why) => {
  const response = await ask(servers[0]!, "/v1/chat/completions", { understudy: { script } });
  expect([response.status, (await response.text()).includes(JSON.stringify(why).slice(1, -1))]).toEqual([400, true]);
});

test("an answer has at most 1,000 parts", async () => {
  const order = (count: number) => ({ script: { parts: Array.from({ length: count }, () => ({ content: "x" })) } });
  const status = async (count: number) =>
    (await ask(servers[0]!, "/v1/chat/completions", { understudy: order(count) })).status;
  expect([await status(PARTS_MOST), await status(PARTS_MOST + 1)]).toEqual([200, 400]);
});
