/** Checks that a server with a dataset answers with its rows in every dialect, and refuses an invalid file. */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hosted } from "../hosted.ts";
import { type Server, type ServerHandle, serve } from "../server.ts";

setDefaultTimeout(60_000);

const user = (content: string) => ({ role: "user", content });
const FIRST = "What is the capital of France?";
const ANSWER = "The capital of France is Paris.";
const TURNS = [user(FIRST), { role: "assistant", content: ANSWER }, user("And of Spain?")];
/** The only answer of at most three tokens. */
const SHORT = "Yes";

let folder: string;
let file: string;
let server: Server;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "understudy-dataset-"));
  file = join(folder, "rows.sqlite3");
  const plain = await hosted(["--timing", "none", "--served-model-name", "m"]);
  const idsOf = async (body: object): Promise<number[]> => {
    const answer = await post(plain, "/tokenize", { model: "m", ...body });
    return ((await answer.json()) as { tokens: number[] }).tokens;
  };
  const database = new Database(file);
  database.exec("CREATE TABLE my (id INTEGER, prompt_hash BLOB, gen_tokens JSON, n_gen_tokens INTEGER)");
  const rows: [object, string, number][] = [
    [{ prompt: FIRST }, "Paris.", 5],
    [{ messages: [user(FIRST)] }, ANSWER, 7],
    [{ messages: TURNS }, "Madrid, of course.", 5],
    [{ prompt: "x" }, SHORT, 1],
  ];
  for (const [prompt, text, count] of rows) {
    const hash = createHash("sha256").update(new Uint8Array(Uint32Array.from(await idsOf(prompt)).buffer));
    database.query("INSERT INTO my VALUES (1, ?, ?, ?)").run(hash.digest(), JSON.stringify([text]), count);
  }
  database.close();
  await plain.stop();
  const flags = ["--compat", "llm-d-inference-sim", "--host", "127.0.0.1", "--model", "m"];
  server = await serve([...flags, "--dataset-path", file, "--dataset-table-name", "my", "--dataset-in-memory"]);
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

function post({ url }: ServerHandle, path: string, body: object): Promise<Response> {
  const headers = { "content-type": "application/json" };
  return fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
}
interface Body {
  readonly choices: readonly {
    readonly text?: string;
    readonly message?: { readonly content: string };
    readonly finish_reason: string;
  }[];
  readonly usage: { readonly completion_tokens: number };
}
async function asked(path: string, body: object): Promise<Body> {
  return (await (await post(server, path, { model: "m", ...body })).json()) as Body;
}
const textOf = ({ choices }: Body) =>
  choices.map(({ text, message, finish_reason }) => `${text ?? message!.content} (${finish_reason})`);
const chat = async (body: object) => textOf(await asked("/v1/chat/completions", body));
const complete = async (body: object) => textOf(await asked("/v1/completions", body));

test("the server prints a summary of the dataset, and no warning", () => {
  expect(server.output()).toContain('dataset: 4 rows of "my"');
  expect(server.output()).not.toContain("not supported");
});

test("a prompt and a conversation get their rows, one per choice", async () => {
  expect(await complete({ prompt: FIRST })).toEqual(["Paris. (stop)"]);
  expect(await chat({ messages: [user(FIRST)] })).toEqual([`${ANSWER} (stop)`]);
  expect(await chat({ messages: TURNS, n: 2 })).toEqual(Array(2).fill("Madrid, of course. (stop)"));
  expect(await complete({ prompt: [FIRST, "x"], max_tokens: 50 })).toEqual(["Paris. (stop)", `${SHORT} (stop)`]);
});

test("a stream has the same text", async () => {
  const body = { model: "m", messages: [user(FIRST)], stream: true };
  const text = await (await post(server, "/v1/chat/completions", body)).text();
  const deltas = [...text.matchAll(/"content":"([^"]*)"/g)].map(([, delta]) => delta);
  expect(deltas.join("")).toBe(ANSWER);
  expect(text).toContain('"finish_reason":"stop"');
});

test("other dialects answer with the rows, too", async () => {
  const responses = await post(server, "/v1/responses", { model: "m", input: FIRST });
  expect(await responses.text()).toContain(`"text":"${ANSWER}"`);
  const messages = await post(server, "/v1/messages", { model: "m", messages: [user(FIRST)], max_tokens: 50 });
  expect(await messages.text()).toContain(`"text":"${ANSWER}"`);
});

test("max_tokens cuts the row, and ignore_eos continues after it", async () => {
  expect(await chat({ messages: [user(FIRST)], max_tokens: 3 })).toEqual(["The capital of (length)"]);
  expect(await chat({ messages: [user(FIRST)], max_tokens: 7 })).toEqual([`${ANSWER} (length)`]);
  const body = await asked("/v1/completions", { prompt: FIRST, max_tokens: 30, ignore_eos: true });
  expect(body.usage.completion_tokens).toBe(30);
  expect(body.choices[0]!.text).toStartWith("Paris.");
  expect(body.choices[0]!.text!.length).toBeGreaterThan(60);
  expect(body.choices[0]!.finish_reason).toBe("length");
});

test("a prompt without a row gets a fitting row, the same for the same seed", async () => {
  expect(await complete({ prompt: "Who?", max_tokens: 2 })).toEqual([`${SHORT} (stop)`]);
  const all = ["Paris. (stop)", `${ANSWER} (stop)`, "Madrid, of course. (stop)", `${SHORT} (stop)`];
  const seeds = Array.from({ length: 20 }, (_, seed) => seed);
  const drawn = await Promise.all(seeds.slice(0, 5).map((seed) => chat({ messages: [user("Who?")], seed })));
  const rest: string[][] = [];
  for (const seed of seeds.slice(5)) rest.push(await chat({ messages: [user("Who?")], seed }));
  const found = new Set([...drawn, ...rest].flat());
  expect([...found].filter((text) => !all.includes(text))).toEqual([]);
  expect(found.size).toBeGreaterThan(1);
  expect(await chat({ messages: [user("Who?")], seed: 0 })).toEqual(drawn[0]!);
});

test("structured answers keep their form, and an order has priority", async () => {
  const messages = [user(FIRST)];
  expect(await chat({ messages, structured_outputs: { choice: ["yes", "no"] } })).toEqual([
    expect.stringMatching(/^(yes|no) /),
  ]);
  expect(await chat({ messages, understudy: { script: "Ordered" } })).toEqual(["Ordered (stop)"]);
  const tool = { type: "function", function: { name: "f", parameters: { type: "object" } } };
  const forced = await asked("/v1/chat/completions", { messages, tools: [tool], tool_choice: "required" });
  expect(forced.choices[0]!.finish_reason).toBe("tool_calls");
});

test("stop strings, log probabilities and the refusal of long prompts work as usual", async () => {
  expect(await chat({ messages: [user(FIRST)], stop: " of" })).toEqual(["The capital (stop)"]);
  const scored = await post(server, "/v1/completions", { model: "m", prompt: FIRST, logprobs: 1 });
  const { choices } = (await scored.json()) as { choices: { logprobs: { tokens: string[] } }[] };
  expect(choices[0]!.logprobs.tokens.join("")).toStartWith("Paris.");
  expect((await post(server, "/v1/completions", { model: "m", prompt: "x ".repeat(2000) })).status).toBe(400);
});

test.each([
  ["nothing", [], "nothing: cannot be read (ENOENT)"],
  ["text.txt", [], "text.txt: not a database that can be read (file is not a database)"],
  ["rows.sqlite3", [], 'rows.sqlite3: there is no table "llmd"'],
])("an invalid file ends the start with one line and exit code 2: %s", async (name, flags, line) => {
  writeFileSync(join(folder, "text.txt"), "Hello ".repeat(1000));
  const started = serve(["--timing", "none", "--dataset", join(folder, name), ...flags]);
  const output = await started.then(
    () => "it started",
    (error: Error) => error.message,
  );
  expect(output).toContain("ended with 2");
  expect(output).toContain(`understudy serve: --dataset ${join(folder, "")}`);
  expect(output).toContain(line);
});
