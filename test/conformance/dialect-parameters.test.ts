/**
 * Checks that each field of messages and responses has the effect of its row. The accepted value gets 200, and the refused
 * value the error of docs/reference/parameters.md. Every field of a table has a row.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { dialectRefusal, dialectTables } from "../../scripts/docs/dialect-tables.ts";
import { FAIL, State } from "../../src/servers/pydantic/types.ts";
import { type HostedServer, hosted } from "../hosted.ts";

setDefaultTimeout(30_000);

let server: HostedServer;
beforeAll(async () => {
  server = await hosted(["--served-model-name", "m", "--timing", "none", "--max-model-len", "4096"]);
});
afterAll(() => server.stop());

const CASES = dialectTables;

async function ask(path: string, body: object) {
  const response = await fetch(server.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, text: await response.text() };
}

const rows = CASES.flatMap(({ path, fields, examples, plain }) =>
  Object.keys(fields).map((name) => [path, name, examples[name]!, plain] as const),
);

test.each(rows)(
  "%s: a valid value of %s is accepted, and an invalid one refused",
  async (path, name, { accepted, refused, others }, plain) => {
    const answer = await ask(path, { ...plain, ...others, [name]: accepted });
    expect([answer.status, answer.text.slice(0, 300)]).toEqual([200, answer.text.slice(0, 300)]);
    if (refused === undefined) return;
    const wrong = await ask(path, { ...plain, [name]: refused });
    const wanted = dialectRefusal(CASES.find((table) => table.path === path)!, name)!;
    expect([wrong.status, wrong.text]).toEqual([wanted.status, wanted.body]);
  },
);

test.each(CASES.map((table) => [table.path, table] as const))(
  "%s: each field has an example whose value fits",
  (_, dialect) => {
    for (const [name, { type }] of Object.entries(dialect.fields))
      expect([name, type.check(dialect.examples[name]!.accepted as never, new State(true)) === FAIL]).toEqual([
        name,
        false,
      ]);
  },
);

test("fields that affect an answer change it", async () => {
  const textOf = async (path: string, fields: object) => {
    const { text } = await ask(path, { ...CASES.find((dialect) => dialect.path === path)!.plain, ...fields });
    return JSON.parse(text);
  };
  const respond = (fields: object) => textOf("/v1/responses", fields);
  const plain = await respond({});
  const words = plain.output[0].content[0].text as string;
  expect((await respond({ instructions: "Be short." })).usage.input_tokens).toBeGreaterThan(plain.usage.input_tokens);
  expect((await respond({ max_output_tokens: 3 })).status).toBe("incomplete");
  expect(words).toStartWith((await respond({ max_output_tokens: 3 })).output[0].content[0].text);
  expect((await respond({ seed: 6 })).output[0].content[0].text).not.toBe(words);
  const stop = words.split(" ")[3]!;
  expect((await respond({ stop })).output[0].content[0].text).toBe(words.slice(0, words.indexOf(stop)));
  expect((await respond({ request_id: "mine" })).id).toBe("mine");
  expect((await respond({ include: ["message.output_text.logprobs"] })).output[0].content[0].logprobs.length).toBe(12);
  const create = (fields: object) => textOf("/v1/messages", fields);
  const message = await create({ temperature: 0 });
  expect((await create({ temperature: 0 })).content).toEqual(message.content);
  expect((await create({ system: "Be short." })).usage.input_tokens).toBeGreaterThan(message.usage.input_tokens);
  const first = message.content[0].text as string;
  const end = first.split(" ")[3]!;
  const ended = await create({ temperature: 0, stop_sequences: [end] });
  expect([ended.stop_reason, ended.stop_sequence, ended.content[0].text]).toEqual([
    "stop_sequence",
    end,
    first.slice(0, first.indexOf(end)),
  ]);
});
