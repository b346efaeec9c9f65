/** Checks that long prompts, which are validated, encoded and returned in pieces, are answered like short ones. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";

let server: HostedServer;
beforeAll(async () => {
  const flags = ["--served-model-name", "m", "--timing", "none", "--max-model-len", "131072"];
  server = await hosted([...flags, "--num-gpu-blocks-override", "32768"]);
});
afterAll(async () => {
  await server.stop();
});

/** Returns more ids than one part of an answer, and more than a short prompt. */
const ids = (from: number) => Array.from({ length: 40_000 }, (_, at) => 300 + ((from + at * 7) % 5000));
const prompts = [ids(0), ids(1), ids(0)];

interface Choice {
  readonly index: number;
  readonly text: string;
  readonly prompt_token_ids: readonly number[] | null;
  readonly token_ids: readonly number[] | null;
}

async function post(fields: object): Promise<{ readonly status: number; readonly text: string }> {
  const asked = { model: "m", prompt: prompts, max_tokens: 3, ignore_eos: true, temperature: 0, ...fields };
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${server.url}/v1/completions`, { method: "POST", headers, body: JSON.stringify(asked) });
  return { status: answer.status, text: await answer.text() };
}

async function whole(fields: object): Promise<readonly Choice[]> {
  const { choices } = JSON.parse((await post(fields)).text) as { readonly choices: readonly Choice[] };
  return choices;
}

/** Returns the joined output of each choice. */
async function streamed(fields: object): Promise<readonly Choice[]> {
  const { text } = await post({ ...fields, stream: true });
  const all: Choice[] = prompts.map((_, index) => ({ index, text: "", prompt_token_ids: null, token_ids: null }));
  for (const line of text.split("\n\n").filter((event) => event.startsWith("data: {")))
    for (const part of (JSON.parse(line.slice(6)) as { readonly choices: readonly Choice[] }).choices) {
      const { index, text, prompt_token_ids, token_ids } = all[part.index]!;
      all[index] = {
        index,
        text: text + part.text,
        prompt_token_ids: part.prompt_token_ids ?? prompt_token_ids,
        token_ids: part.token_ids === null ? token_ids : [...(token_ids ?? []), ...part.token_ids],
      };
    }
  return all;
}

test("returned ids equal the sent ids, in an answer and in a stream", async () => {
  const shown = await whole({ return_token_ids: true });
  expect(shown.map((choice) => choice.prompt_token_ids)).toEqual(prompts);
  const events = await streamed({ return_token_ids: true });
  expect(events.map((choice) => choice.prompt_token_ids)).toEqual(prompts);
  expect(events.map((choice) => choice.token_ids)).toEqual(shown.map((choice) => choice.token_ids));
});

test("answers follow their echoed prompts, and equal prompts have equal answers under greedy decoding", async () => {
  const plain = (await whole({})).map(({ text }) => text);
  expect([plain[0] === plain[2], plain[0] === plain[1]]).toEqual([true, false]);
  const alone = await whole({ prompt: prompts[1] });
  expect(alone[0]!.text).toBe(plain[1]!);
  const echoed = (await whole({ echo: true })).map(({ text }) => text);
  for (const [at, text] of echoed.entries()) {
    expect(text.endsWith(plain[at]!)).toBe(true);
    expect(text.length).toBeGreaterThan(40_000);
  }
  expect((await streamed({ echo: true })).map(({ text }) => text)).toEqual(echoed);
});

test("an invalid id is found in any prompt", async () => {
  const wrong = [...ids(0).slice(1), 999_999_999];
  const { status, text } = await post({ prompt: [prompts[0], wrong] });
  expect([status, JSON.parse(text).error.message]).toEqual([400, "Token id 999999999 is out of vocabulary"]);
});
