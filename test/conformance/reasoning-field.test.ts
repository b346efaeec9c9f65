/**
 * Tests `--reasoning-field`: reasoning has the name of the given server version, in messages and deltas, and for null values.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";

setDefaultTimeout(30_000);

const servers: HostedServer[] = [];
afterAll(async () => {
  for (const server of servers) await server.stop();
});

type Members = Readonly<Record<string, unknown>>;

async function served(line: string) {
  const server = await hosted(`--timing none --served-model-name m --mean-reasoning-tokens 4 ${line}`.split(" "));
  servers.push(server);
  const ask = (body: object) =>
    fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: "m",
        messages: [{ role: "user", content: "Hi" }],
        max_tokens: 30,
        seed: 3,
        ...body,
      }),
    });
  const message = async (): Promise<Members> => {
    const { choices } = (await (await ask({})).json()) as { choices: [{ message: Members }] };
    return choices[0].message;
  };
  const deltas = async (): Promise<Members[]> => {
    const lines = (await (await ask({ stream: true })).text()).split("\n").filter((text) => text.startsWith("data: {"));
    return lines.flatMap((text) =>
      (JSON.parse(text.slice(6)).choices as { delta: Members }[]).map(({ delta }) => delta),
    );
  };
  return { message: await message(), deltas: await deltas() };
}

const names = (members: Members) => Object.keys(members).filter((name) => name.startsWith("reasoning"));
const joined = (deltas: readonly Members[], name: string) => deltas.map((delta) => delta[name] ?? "").join("");

test.each([
  ["reasoning", "--reasoning-parser deepseek_r1", ["reasoning"]],
  ["reasoning", "--reasoning-parser qwen3 --reasoning-field reasoning", ["reasoning"]],
  ["reasoning_content", "--reasoning-parser deepseek_r1 --reasoning-field reasoning_content", ["reasoning_content"]],
  ["reasoning_content", "--reasoning-parser qwen3 --reasoning-field both", ["reasoning", "reasoning_content"]],
] as const)("the field is %s with %s", async (name, line, wanted) => {
  const { message, deltas } = await served(line);
  expect(names(message)).toEqual([...wanted]);
  expect(message[name]).toBeString();
  for (const field of wanted)
    expect([message[field], joined(deltas, field)]).toEqual([message[name], message[name] as string]);
  // As exclude_unset writes them: the version that copies both writes a null into every other delta.
  const others = deltas.filter((delta) => !("reasoning" in delta) && (delta.reasoning_content ?? null) === null);
  expect(others.length).toBeGreaterThan(2);
  for (const delta of others) expect(names(delta)).toEqual(line.endsWith("both") ? ["reasoning_content"] : []);
});

test("without a parser the message has a null field, and plain tokens keep the copied one", async () => {
  const { message, deltas } = await served("--reasoning-field both");
  expect([message.reasoning, message.reasoning_content]).toEqual([null, null]);
  for (const delta of deltas) expect(delta.reasoning_content).toBeNull();
  const old = await served("--reasoning-field reasoning_content");
  expect(names(old.message)).toEqual(["reasoning_content"]);
  for (const delta of old.deltas) expect(names(delta)).toEqual([]);
});

test.each([
  ["", ["reasoning_content"], { reasoning: null }],
  [" --reasoning-field reasoning", ["reasoning"], { reasoning_content: null }],
  [" --reasoning-field both", ["reasoning_content", "reasoning"], {}],
] as const)("trtllm-serve has its default field or the given one:%s", async (field, wanted, nulls) => {
  const { message, deltas } = await served(`--role trtllm-serve --reasoning_parser deepseek-r1${field}`);
  expect(message).toMatchObject(nulls);
  for (const name of wanted)
    expect([message[name] !== "", joined(deltas, name)]).toEqual([true, message[name] as string]);
  // Each delta with content has the fields, as "" if there is no reasoning.
  for (const delta of deltas.filter((delta) => "content" in delta)) expect(names(delta)).toEqual([...wanted]);
});

// Found by the oracle of test/fronts: vLLM 0.33's parser leaves them out.
test("an answer that the parser qwen3 reads has no special tokens", async () => {
  const model = new URL("model", import.meta.url).pathname;
  const flags = ["--timing=none", "--served-model-name=m", "--reasoning-parser=qwen3", `--tokenizer=${model}`];
  const server = await hosted([...flags, "--max-model-len=1024"]);
  servers.push(server);
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      ...{ model: "m", messages: [{ role: "user", content: "Hi" }], max_tokens: 40, ignore_eos: true },
      understudy: { script: [[460], [575], [19]] },
    }),
  });
  const { choices, usage } = (await response.json()) as { choices: [{ message: Members }]; usage: Members };
  expect(usage.completion_tokens).toBe(40);
  expect(`${choices[0].message.reasoning}${choices[0].message.content}`).not.toContain("<|");
});
