/** Checks that a live server answers as ordered, by header, by body or from a file: tokens, times and refusals. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type HostedServer, hosted } from "../hosted.ts";

setDefaultTimeout(30_000);

let server: HostedServer;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "understudy-orders-"));
  const scripts = [
    { sequences: [{ steps: [[13225]] }] },
    { name: "named", sequences: [{ steps: [[13225, 2375]] }, { steps: [[2375]] }] },
    { sequences: [{ steps: [[2375]] }] },
  ];
  writeFileSync(join(folder, "scripts.json"), JSON.stringify({ scripts }));
  const flags = "--timing none --served-model-name m --disable-uvicorn-access-log --max-logprobs 5".split(" ");
  server = await hosted([...flags, "--script", join(folder, "scripts.json")]);
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

interface Answer {
  readonly choices: readonly {
    readonly text: string;
    readonly message: { readonly content: string };
    readonly finish_reason: string;
  }[];
  readonly usage: { readonly completion_tokens: number };
  readonly error: { readonly message: string; readonly param: string };
}
async function post(path: string, body: object, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(server.url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  return (await response.json()) as Answer;
}
const complete = (body: object, headers?: Record<string, string>) =>
  post("/v1/completions", { prompt: "Well", ...body }, headers);
const texts = ({ choices }: Answer) => choices.map(({ text }) => text);

test("the file's scripts without a name answer the first requests, one each; later ones get the default text", async () => {
  const answers: Answer[] = [];
  for (let i = 0; i < 3; i++) answers.push(await complete({ max_tokens: 9, seed: 5 }));
  const [first, second, third] = answers.map(texts);
  expect(answers.map(({ choices }) => choices[0]!.finish_reason)).toEqual(["stop", "stop", "length"]);
  expect(answers.map(({ usage }) => usage.completion_tokens)).toEqual([2, 2, 9]);
  expect(first).not.toEqual(second!);
  expect((await complete({ max_tokens: 9, seed: 5 })).choices[0]!.text).toBe(third![0]!);
});

test("echo returns the last user message or the prompt, for every choice", async () => {
  const messages = [
    { role: "user", content: "First" },
    { role: "assistant", content: "Yes" },
    { role: "user", content: "Say 🦔 this" },
    { role: "system", content: "Now" },
  ];
  const chat = await post("/v1/chat/completions", { messages, n: 2, understudy: { echo: true } });
  expect(chat.choices.map(({ message }) => message.content)).toEqual(["Say 🦔 this", "Say 🦔 this"]);
  expect(texts(await complete({ prompt: ["One two", "Three"], n: 2, understudy: { echo: true } }))).toEqual([
    "One two",
    "One two",
    "Three",
    "Three",
  ]);
});

test("limits and stop strings cut an ordered text like any other", async () => {
  const understudy = { script: "The answer is 42. END of it" };
  expect(texts(await complete({ understudy, max_tokens: 100 }))).toEqual(["The answer is 42. END of it"]);
  const stopped = await complete({ understudy, stop: [" END"], max_tokens: 100 });
  expect([texts(stopped), stopped.choices[0]!.finish_reason]).toEqual([["The answer is 42."], "stop"]);
  const cut = await complete({ understudy, max_tokens: 2 });
  expect([texts(cut), cut.choices[0]!.finish_reason]).toEqual([["The answer"], "length"]);
});

test("the header has priority over the body and names scripts of the file, and each sequence is one choice", async () => {
  const header = { "X-Understudy": '{"play":"named"}' };
  const answer = await complete({ n: 3, understudy: { script: "no" } }, header);
  expect(texts(answer).map((text) => text.length > 0)).toEqual([true, true, false]);
  expect(answer.usage.completion_tokens).toBe(3 + 2 + 1);
});

test("several tokens of a step form one chunk", async () => {
  const response = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      prompt: "x",
      stream: true,
      return_token_ids: true,
      understudy: { script: [[13225], [2375, 13225, 2375], [13225]] },
    }),
  });
  const frames = (await response.text()).split("\n\n").filter((frame) => frame.startsWith("data: {"));
  const ids = frames.map((frame) => JSON.parse(frame.slice("data: ".length)).choices[0].token_ids.length);
  expect(ids).toEqual([1, 3, 1, 1]);
});

test("escapes in a path are not decoded", async () => {
  expect((await fetch(`${server.url}/v1%2Fmodels`)).status).toBe(404);
});

test("a batch that requests a stream gets whole answers", async () => {
  const messages = [[{ role: "user", content: "One two" }], [{ role: "user", content: "Three" }]];
  const body = { messages, stream: true, understudy: { script: "Well then" } };
  const { choices } = await post("/v1/chat/completions/batch", body);
  expect(choices.map(({ message }) => message.content)).toEqual(["Well then", "Well then"]);
});

/** Effect of each level on an order for the answer, and on one that pauses the engine. */
test.each([
  ["none", "default", "default"],
  ["answers", "ordered", 403],
  ["all", "ordered", "ordered"],
])("--allow-request-orders %s", async (level, answers, engine) => {
  const server = await hosted(["--timing", "none", "--seed", "3", "--allow-request-orders", level]);
  const ask = async (understudy: object, header: boolean) => {
    const body = { prompt: "Well", max_tokens: 5, ignore_eos: true, seed: 1, return_token_ids: true };
    const response = await fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(header ? { "x-understudy": JSON.stringify(understudy) } : {}),
      },
      body: JSON.stringify(header ? body : { ...body, understudy }),
    });
    if (response.status !== 200) return response.status;
    const { choices } = (await response.json()) as { choices: { token_ids: number[] }[] };
    return choices[0]!.token_ids[0] === 2375 ? "ordered" : "default";
  };
  const sequences = [{ steps: [[2375]] }];
  for (const header of [true, false]) {
    expect(await ask({ script: { sequences } }, header)).toBe(answers as string);
    expect(await ask({ script: { sequences, hold_after: 1, release_after_s: 0.01 } }, header)).toBe(engine as string);
    const dies = { script: { sequences, engine_dies_at_step: 100 } };
    expect(await ask(dies, header)).toBe(engine as string);
  }
  expect(await ask({ script: "x", skript: 1 }, true)).toBe(level === "none" ? "default" : 400);
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
  await server.stop();
});

test.each([
  ["in the header of any request", '{"release":true}', null],
  ["in the header as Python's json.dumps writes it", '{"release": true}', null],
  ["in the header with blanks and other members", '{ "echo" : false,\t"release" :\ttrue }', null],
  ["in the body of a request for an answer", null, { release: true }],
] as const)("with all, the order release %s continues an engine that a request stopped", async (_, header, order) => {
  const server = await hosted(["--timing", "none", "--allow-request-orders", "all"]);
  const post = (body: object, headers: object = {}) =>
    fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    });
  const script = { sequences: [{ steps: [[2375], [2375]] }], hold_after: 1 };
  const held = await post({ prompt: "x", stream: true, understudy: { script } });
  const reader = held.body!.getReader();
  await reader.read();
  // The engine pauses after the first token, and these requests do not order it to continue.
  let ended = false;
  const rest = (async () => {
    while (!(await reader.read()).done);
    ended = true;
  })();
  const other = ['{"release": false}', '{"echo": true, "comment": "\\"release\\":true"}', "release:true"];
  for (const text of other) await fetch(`${server.url}/health`, { headers: { "x-understudy": text } });
  expect(ended).toBe(false);
  if (header !== null) await fetch(`${server.url}/health`, { headers: { "x-understudy": header } });
  else expect((await post({ prompt: "y", max_tokens: 2, understudy: order })).status).toBe(200);
  await rest;
  await server.stop();
});

test.each([
  [{ script: [[300_000]] }, "understudy: token id 300000 is out of vocabulary (201088 ids)"],
  [{ play: "nobody" }, 'understudy: no script of --script is named "nobody"'],
  [{ script: "x", echo: true }, 'understudy: only one of "echo", "script", "play" and "call" can be ordered'],
  ["x", "understudy: the order must be an object"],
])("%j is refused", async (understudy, wanted) => {
  const { error } = await complete({ understudy });
  expect([error.message, error.param]).toEqual([wanted, "understudy"]);
});
