/** Duties of the routes besides answers: order of arrival, disconnects, oversized bodies, counts and logs. */

import { afterEach, expect, test } from "bun:test";
import net from "node:net";
import type { ServeConfig } from "../../../../src/app/config/serve-config.ts";
import { WallClock } from "../../../../src/base/clock.ts";
import { idsOf } from "../../../../src/base/random.ts";
import { Finish, type Generation, type Outcome, type Receiver } from "../../../../src/engine/interface/types.ts";
import { countedBy } from "../../../../src/servers/openai/front/served.ts";
import { anthropic } from "../../../../src/servers/vllm/messages/dialect.ts";
import { openai } from "../../../../src/servers/vllm/openai/routes.ts";
import { responses } from "../../../../src/servers/vllm/responses/dialect.ts";
import { renderChat } from "../../../../src/text/tokens/chat-template.ts";
import { vocabularyOf } from "../../../../src/text/tokens/vocabulary.ts";
import { application } from "../../../../src/wire/http/elysia.ts";
import type { RouteTable } from "../../../../src/wire/http/routes.ts";
import { HttpServer } from "../../../../src/wire/http1/server.ts";
import { fakeAccounting, fakeKernel } from "../../../kernel/fake-kernel.ts";
import { LOCAL } from "../../../wire/http1/local-options.ts";

const vocabulary = vocabularyOf(
  Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  new Set([0]),
  0,
);

interface Running {
  readonly generation: Generation;
  readonly receiver: Receiver;
  cancelled: boolean;
}

/** Members of the configuration in addition to those of all tests. */
interface MoreConfig {
  readonly models?: Partial<ServeConfig["models"]>;
  readonly front?: Partial<ServeConfig["openai"]["front"]>;
  readonly requests?: Partial<ServeConfig["openai"]["requests"]>;
}

/** A server whose encoder and engine do nothing until the test calls them. */
class TestServer {
  readonly running: Running[] = [];
  readonly outcomes: Outcome[] = [];
  readonly log: string[] = [];
  readonly encodings: ((ids: Uint32Array) => void)[] = [];
  /** Length of each text that is encoded. */
  readonly lengths: number[] = [];
  opened = 0;
  /** Number of seeds that were drawn. */
  drawn = 0;
  refuse = false;
  readonly config: ServeConfig;
  readonly table: RouteTable;
  readonly #server: HttpServer;

  constructor(apiKeys: string[] = [], { models = {}, front = {}, requests = {} }: MoreConfig = {}) {
    this.config = {
      engine: { maxModelLen: 1024, blockSize: 16, enablePrefixCaching: true },
      models: { model: "m", servedModelNames: ["m"], loraModules: [], ...models },
      openai: {
        front: { apiKeys, ...front },
        requests: { maxLogprobs: 20, ...requests },
        answers: { streamInterval: 1 },
      },
      listen: { maxBodyBytes: 1000 },
      text: {},
      faults: {},
      queue: {},
      logs: {},
    } as unknown as ServeConfig;
    this.table = openai(
      fakeKernel({
        config: this.config,
        log: (line) => void this.log.push(line),
        text: {
          model: {
            vocabulary,
            renderChat,
            endIds: [],
            generation: {},
            encoder: {
              encode: (parts) => {
                this.lengths.push(parts.join("").length);
                return new Promise((resolve) => this.encodings.push(resolve));
              },
              close() {},
            },
          },
        },
        backend: {
          nowUs: () => 5,
          spare: async () => {},
          consumed: () => {},
          submit: (generation, receiver) => {
            if (this.refuse) return { refused: "busy" };
            const running = { generation, receiver, cancelled: false };
            this.running.push(running);
            const cancel = () => {
              running.cancelled = true;
            };
            return { cancel, finish() {}, release() {}, cachedTokens: 0 };
          },
        },
        metrics: { accounting: fakeAccounting(this) },
        chance: { newId: idsOf(null), nextSeed: () => ++this.drawn },
      }),
      [anthropic(false), responses(0)],
    );
    const app = application(this.table);
    this.#server = new HttpServer(app, { ...LOCAL, clock: new WallClock() });
  }

  get port(): number {
    return this.#server.port;
  }

  post(body: unknown, headers: Record<string, string> = {}, path = "/v1/completions"): Promise<Response> {
    return fetch(`http://127.0.0.1:${this.port}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  }

  /** Sends a request without waiting for the answer. */
  send(...request: Parameters<TestServer["post"]>): void {
    // Fails when the server closes.
    this.post(...request).catch(() => {});
  }

  /** Sends a request over a socket that the test can close. */
  connect(body: unknown): net.Socket {
    const text = JSON.stringify(body);
    const socket = net.connect(this.port, "127.0.0.1");
    socket.on("error", () => {});
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
    );
    return socket;
  }

  close(): Promise<unknown> {
    return this.#server.stop(true);
  }
}

let server: TestServer;
afterEach(() => server.close());

async function until(holds: () => boolean, what: string): Promise<void> {
  for (let tries = 0; !holds(); tries++) {
    if (tries > 2000) throw new Error(`never happened: ${what}`);
    await Bun.sleep(5);
  }
}

const prompts = () => server.running.map(({ generation }) => [...generation.promptIds]);

test("requests reach the engine in order of arrival, with or without prompts to encode", async () => {
  server = new TestServer();
  server.send({ prompt: "slow" });
  await until(() => server.encodings.length === 1, "first encoding");
  server.send({ prompt: [2, 2] });
  await until(() => server.opened === 2, "second request");
  await Bun.sleep(20);
  server.send({ prompt: ["a", "b"], n: 1 });
  await until(() => server.encodings.length === 3, "third request");
  server.encodings[2]!(Uint32Array.of(3, 4));
  server.encodings[1]!(Uint32Array.of(3, 3));
  await Bun.sleep(20);
  expect(prompts()).toEqual([]);
  server.encodings[0]!(Uint32Array.of(1, 1));
  await until(() => server.running.length === 4, "all four");
  expect(prompts()).toEqual([
    [1, 1],
    [2, 2],
    [3, 3],
    [3, 4],
  ]);
  server.send({ prompt: [5] });
  await until(() => server.running.length === 5, "a request with no other before it");
});

test("seeds are drawn in order of arrival, even if a later prompt is encoded first", async () => {
  server = new TestServer();
  const long = (letter: string) => ({ prompt: letter, truncate_prompt_tokens: 10, max_tokens: 2 });
  server.send(long("a"));
  await until(() => server.encodings.length === 1, "the first prompt reaches the encoder");
  server.send(long("b"));
  await until(() => server.encodings.length === 2, "the second prompt reaches the encoder");
  server.encodings[1]!(new Uint32Array(20_000).fill(2));
  await Bun.sleep(5);
  server.encodings[0]!(new Uint32Array(20_000).fill(1));
  await until(() => server.running.length === 2, "both requests reach the engine");
  const seen = server.running.map(({ generation: { promptIds, seed } }) => [promptIds[0], promptIds.length, seed]);
  expect(seen).toEqual([
    [1, 10, 1],
    [2, 10, 2],
  ]);
});

test("of an ordered answer only the text within its limit of tokens is encoded", async () => {
  server = new TestServer();
  const order = { "x-understudy": JSON.stringify({ script: "x".repeat(20_000) }) };
  server.send({ prompt: [1, 2], max_tokens: 5 }, order);
  await until(() => server.lengths.length === 1, "the first text");
  server.send({ prompt: [1, 2], max_tokens: 900 }, order);
  await until(() => server.lengths.length === 2, "the second text");
  expect(server.lengths).toEqual([5 + 4096, 900 + 4096]);
});

for (const stream of [true, false])
  for (const how of ["FIN", "RST"] as const)
    for (const when of ["while its prompt is encoded", "before the first token", "after the first token"] as const)
      test(`a client leaves a ${stream ? "stream" : "plain request"} by ${how} ${when}`, async () => {
        server = new TestServer();
        const socket = server.connect({ prompt: "x", stream, n: 2 });
        await until(() => server.encodings.length === 1, "encoding");
        const leave = () => (how === "FIN" ? socket.end() : socket.resetAndDestroy());
        if (when === "while its prompt is encoded") {
          leave();
          await Bun.sleep(30);
        }
        server.encodings[0]!(Uint32Array.of(1));
        await until(() => server.running.length === 2 || server.outcomes.length > 0, "submission");
        if (when === "after the first token") server.running[0]!.receiver.onTokens(Int32Array.of(65), 0, 1, null, -1);
        if (when !== "while its prompt is encoded") {
          await Bun.sleep(10);
          leave();
        }
        await until(() => server.outcomes.length > 0, "outcome");
        await Bun.sleep(10);
        expect(server.outcomes).toEqual(["abort"]);
        const reached = when === "while its prompt is encoded" ? [] : [true, true];
        expect(server.running.map(({ cancelled }) => cancelled)).toEqual(reached);
        socket.destroy();
      });

test("a disconnect does not cancel a choice that has ended", async () => {
  server = new TestServer();
  const socket = server.connect({ prompt: [1], stream: true, n: 2 });
  await until(() => server.running.length === 2, "submission");
  server.running[0]!.receiver.onTokens(Int32Array.of(65), 0, 1, Finish.Length, -1);
  socket.destroy();
  await until(() => server.outcomes.length > 0, "outcome");
  expect(server.running.map(({ cancelled }) => cancelled)).toEqual([false, true]);
});

test("an oversized body gets 413, with Content-Length or in chunks", async () => {
  server = new TestServer();
  const large = JSON.stringify({ prompt: "x".repeat(2000) });
  for (const chunked of [false, true]) {
    const body = chunked ? new Blob([large]).stream() : large;
    const answer = await fetch(`http://127.0.0.1:${server.port}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    expect(answer.status).toBe(413);
    expect(((await answer.json()) as { error: { code: number } }).error.code).toBe(413);
  }
  expect(server.outcomes).toEqual(["refused", "refused"]);
});

test("each request to a generating route is counted once, other requests are not", async () => {
  server = new TestServer(["key"]);
  const key = { authorization: "Bearer key" };
  expect((await server.post({ prompt: [1] })).status).toBe(401);
  expect((await server.post("{", key)).status).toBe(400);
  expect((await server.post({ prompt: [1], model: "other" }, key)).status).toBe(404);
  server.refuse = true;
  expect((await server.post({ prompt: [1] }, key)).status).toBe(503);
  expect((await server.post({ prompt: [1], stream: true, n: 2 }, key)).status).toBe(503);
  const late = await server.post({ prompt: [1], stream: true, stop_token_ids: [1000] }, key);
  expect(late.status).toBe(200);
  expect(await late.text()).toContain('"code": 400');
  expect((await server.post({}, key, "/v1/nothing")).status).toBe(404);
  expect((await fetch(`http://127.0.0.1:${server.port}/v1/models`, { headers: key })).status).toBe(200);
  expect((await fetch(`http://127.0.0.1:${server.port}/metrics`, { method: "POST" })).status).toBe(405);
  expect(server.outcomes).toEqual(Array(6).fill("refused"));
  expect(server.opened).toBe(6);
});

test("the access log has uvicorn's lines", async () => {
  server = new TestServer();
  await fetch(`http://127.0.0.1:${server.port}/version?a=%20b`);
  await server.post("{");
  const lines = server.log.map((line) => line.replace(/:\d+ /, ":PORT "));
  expect(lines).toEqual([
    'INFO:     127.0.0.1:PORT - "GET /version?a=%20b HTTP/1.1" 200 OK',
    'INFO:     127.0.0.1:PORT - "POST /v1/completions HTTP/1.1" 400 Bad Request',
  ]);
});

test("the engine gets the parameters of a request", async () => {
  server = new TestServer();
  server.send(
    {
      prompt: [[1, 2], [3]],
      n: 2,
      seed: 2 ** 32 + 9,
      max_tokens: 7,
      priority: 3,
      cache_salt: "s",
      min_tokens: 2,
      stop_token_ids: [4],
    },
    { "x-vllm-priority": "-1", "x-request-id": "a" },
  );
  await until(() => server.running.length === 4, "submissions");
  const common = {
    maxTokens: 7,
    minTokens: 2,
    ignoreEos: false,
    plannedTokens: 1000,
    stopTokenIds: [4],
    priority: -1,
    cacheSalt: "s",
    adapter: 0,
    skipReadingPrefixCache: false,
    arrivalUs: 5,
    encodedFromUs: 5,
    choices: { count: 2, left: 2, longest: 0 },
  };
  const ids = ["0_cmpl-a-0", "1_cmpl-a-0", "0_cmpl-a-1", "1_cmpl-a-1"];
  const seeds = server.running.map(({ generation: { promptIds: _, seed, ...rest } }, i) => {
    expect(rest).toEqual({ id: ids[i], ...common });
    return seed;
  });
  expect(seeds).toEqual([8, 9, 8, 9]);
  // Only choices of the same prompt share an object.
  const [a, b, c] = server.running.map(({ generation }) => generation.choices);
  expect([a === b, b === c]).toEqual([true, false]);
  expect(prompts()).toEqual([[1, 2], [1, 2], [3], [3]]);
});

for (const more of [
  { models: { runtimeLora: true } },
  { front: { readiness: { afterUs: 0 }, tokenizerInfo: true }, requests: { embeddingDimensions: 4 } },
])
  test(`the routes are those that counts and 405 answers list: ${JSON.stringify(more)}`, () => {
    server = new TestServer([], more);
    const routed = server.table.routes.map(({ method, path }) => `${method} ${path.replace(":id", "{response_id}")}`);
    // Docs and dev mode have separate tables.
    const { models, openai } = server.config;
    const front = { ...openai.front, disableFastapiDocs: true, devMode: false };
    const served = countedBy({ models, openai: { ...openai, front } });
    const listed = Object.entries(served).flatMap(([path, methods]) => methods.map((method) => `${method} ${path}`));
    expect(routed.sort()).toEqual(listed.sort());
  });
