/**
 * The server's answers equal those of vLLM 0.33 byte for byte. Each recorded case is played over a socket, with the same request
 * and the same tokens. Before the comparison, placeholders replace the values that change per run.
 */

import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import type { ServeConfig } from "../../../../src/app/config/serve-config.ts";
import { WallClock } from "../../../../src/base/clock.ts";
import { idsOf } from "../../../../src/base/random.ts";
import { readLoraModules } from "../../../../src/cli/options/lora-modules.ts";
import type { Outcome } from "../../../../src/engine/interface/types.ts";
import { openai } from "../../../../src/servers/vllm/openai/routes.ts";
import { renderChat } from "../../../../src/text/tokens/chat-template.ts";
import { vocabularyOf } from "../../../../src/text/tokens/vocabulary.ts";
import { application } from "../../../../src/wire/http/elysia.ts";
import { HttpServer } from "../../../../src/wire/http1/server.ts";
import { exchange, type RawRequest, type RawResponse } from "../../../conformance/raw-client.ts";
import { type Script, ScriptedEngine, scriptedLogprobs } from "../../../conformance/scripted-engine.ts";
import { fakeAccounting, fakeKernel } from "../../../kernel/fake-kernel.ts";
import { LOCAL } from "../../../wire/http1/local-options.ts";

interface Exchange {
  readonly request: RawRequest;
  readonly script?: Script | null;
  readonly hold_after?: number;
  readonly response: {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: string;
    readonly frames?: readonly string[];
    readonly frames_per_chunk?: readonly number[];
  };
  readonly engine_requests?: readonly {
    readonly prompt_token_ids: readonly number[];
    readonly params: Readonly<Record<string, unknown>>;
  }[];
}

interface Case extends Exchange {
  readonly name: string;
  readonly server_flags?: readonly string[];
  readonly exchanges?: readonly Exchange[];
  readonly background?: Exchange;
  readonly free_order?: boolean;
}

const folder = new URL("../../../conformance/recorded-streams/", import.meta.url);
const read = (name: string) => readFileSync(new URL(name, folder), "utf8");
const cases = read("cases.jsonl")
  .trim()
  .split("\n")
  .map((line): Case => JSON.parse(line));
const tokens: { special: number[]; bytes_hex: string[] } = JSON.parse(read("tokens.json"));
const placeholders = (JSON.parse(read("placeholders.json")) as { pattern: string; replacement: string }[]).map(
  ({ pattern, replacement }) => [new RegExp(pattern, "g"), replacement] as const,
);
const EOS = 1;
const vocabulary = vocabularyOf(
  tokens.bytes_hex.map((hex) => new Uint8Array(Buffer.from(hex, "hex"))),
  new Set(tokens.special),
  EOS,
);

/** Token IDs of the prompt if a recording has none: one message "x". */
const DEFAULT_PROMPT = [0, 4, 95, 7, 206, 5];

/** Cases that are not supported, with the option that they need. A case that passes must be removed. */
const OUT_OF_SCOPE: Readonly<Record<string, string>> = {
  "cors-preflight": "--allowed-origins",
  "cors-simple": "--allowed-origins",
  "generation-defaults-chat": "--override-generation-config",
  "generation-defaults-completions": "--override-generation-config",
  "generation-defaults-overruled": "--override-generation-config",
  "keep-alive-comment": "--sse-keep-alive-interval",
  "keep-alive-comment-completions": "--sse-keep-alive-interval",
};

const clean = (text: string) => placeholders.reduce((all, [pattern, to]) => all.replace(pattern, to), text);

/** Returns the values after a flag, or null if it is absent. */
function flag(flags: readonly string[], name: string): string[] | null {
  const at = flags.indexOf(name);
  if (at === -1) return null;
  const end = flags.findIndex((word, i) => i > at && word.startsWith("--"));
  return flags.slice(at + 1, end === -1 ? undefined : end);
}

function configOf(flags: readonly string[]): ServeConfig {
  const names = flag(flags, "--served-model-name") ?? ["golden"];
  const engine = { maxModelLen: 1024, blockSize: 16, enablePrefixCaching: true };
  return {
    engine: engine as ServeConfig["engine"],
    models: {
      model: "model",
      servedModelNames: names,
      loraModules: readLoraModules(flag(flags, "--lora-modules") ?? []),
    },
    dataParallelSize: 1,
    openai: {
      front: {
        apiKeys: flag(flags, "--api-key") ?? [],
        enableRequestIdHeaders: flags.includes("--enable-request-id-headers"),
        trackServerLoad: flags.includes("--enable-server-load-tracking"),
      },
      answers: {
        streamInterval: Number(flag(flags, "--stream-interval")?.[0] ?? 1),
        enablePromptTokensDetails: flags.includes("--enable-prompt-tokens-details"),
        enableForceIncludeUsage: flags.includes("--enable-force-include-usage"),
        responseRole: flag(flags, "--response-role")?.[0],
        fingerprintMode: flag(flags, "--fingerprint-mode")?.[0],
        fingerprintValue: flag(flags, "--fingerprint-value")?.[0],
      },
      requests: { maxLogprobs: Number(flag(flags, "--max-logprobs")?.[0] ?? 20) },
    },
    listen: { maxBodyBytes: 2 ** 20 },
    text: {},
    faults: {},
    queue: {},
    logs: {},
  } as unknown as ServeConfig;
}

/** The server of a case. Engine and encoded prompts change with each exchange. */
class CaseServer {
  engine = new ScriptedEngine(null);
  prompts: readonly (readonly number[])[] = [];
  minusInfinityAt: readonly number[] = [];
  readonly outcomes: Outcome[] = [];
  opened = 0;
  readonly #clock = new WallClock();
  readonly #server: HttpServer;

  constructor(flags: readonly string[]) {
    let encoded = 0;
    const config = configOf(flags);
    const app = application(
      openai(
        fakeKernel({
          config,
          text: {
            model: {
              vocabulary,
              endIds: [],
              generation: {},
              encoder: {
                encode: async () =>
                  Uint32Array.from(this.prompts[encoded++ % Math.max(1, this.prompts.length)] ?? DEFAULT_PROMPT),
                close() {},
              },
              // Returns the recorded IDs in place of the recorded model's template.
              renderChat: (messages, prompted, continued, tools) => {
                renderChat(messages, prompted, continued, tools);
                return [...(this.prompts[0] ?? DEFAULT_PROMPT)];
              },
            },
          },
          backend: {
            submit: (generation, receiver) => this.engine.submit(generation, receiver),
            nowUs: () => 0,
            spare: async () => {},
            consumed: () => {},
          },
          metrics: { accounting: fakeAccounting(this) },
          time: { epochSeconds: () => Date.now() / 1000 },
          chance: { newId: idsOf(null) },
        }),
        [],
        null,
        (seed, id, position, count) =>
          scriptedLogprobs(vocabulary.size, this.minusInfinityAt)(seed, id, position, count),
      ),
    );
    this.#server = new HttpServer(app, {
      ...LOCAL,
      clock: this.#clock,
      epochSeconds: () => Date.now() / 1000,
    });
  }

  play({ request, script, engine_requests, response }: Exchange): Promise<RawResponse> {
    const { n = 1 } = (request.body ?? {}) as { n?: number | null };
    this.prompts = (engine_requests ?? []).filter((_, i) => i % (n ?? 1) === 0).map((sent) => sent.prompt_token_ids);
    if (request.path === "/tokenize" && response.status === 200) this.prompts = [JSON.parse(response.body!).tokens];
    this.minusInfinityAt = script?.sequences[0]?.minus_infinity_at ?? [];
    return exchange(request, this.#server.port);
  }

  async close(): Promise<void> {
    await this.#server.stop(true);
    this.#clock.close();
  }
}

/** Returns the recorded answer without metrics of the request, which are not supported here. */
function expected({ response }: Exchange, freeOrder: boolean) {
  const { "content-length": length, ...headers } = response.headers;
  const withoutMetrics = (text: string) => text.replace(/,"metrics":\{[^}]*\}\}$/, "}");
  const answer = {
    status: response.status,
    headers: length === "<int>" || length === undefined ? headers : { ...headers, "content-length": length },
    body: response.body?.replace(/"metrics":\{[^}]*\}/, '"metrics":null'),
    frames: response.frames?.map(withoutMetrics),
    framesPerChunk: response.frames_per_chunk,
  };
  if (freeOrder) answer.frames = byChoice(answer.frames ?? []);
  return answer;
}

function actual(raw: RawResponse, recorded: Exchange, freeOrder: boolean): ReturnType<typeof expected> {
  const { date: _, "content-length": length, ...rest } = raw.headers;
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(rest))
    headers[name] = /^[0-9a-f]{32}$/.test(value) && name === "x-request-id" ? "<hex32>" : clean(value);
  const counted = recorded.response.headers["content-length"];
  if (length !== undefined && counted !== "<int>") headers["content-length"] = length;
  const streams = raw.headers["content-type"]?.startsWith("text/event-stream") ?? false;
  const frames = streams ? raw.body.split("\n\n").slice(0, -1).map(clean) : undefined;
  return {
    status: raw.status,
    headers,
    body: streams ? undefined : clean(raw.body),
    frames: frames === undefined ? undefined : freeOrder ? byChoice(frames) : frames,
    framesPerChunk: streams ? (raw.chunks ?? []).map((chunk) => chunk.split("\n\n").length - 1) : undefined,
  };
}

/** Sorts events by choice, because the order of a request's prompts within a step is not fixed. */
function byChoice(frames: readonly string[]): string[] {
  const index = (frame: string) => Number(frame.match(/"choices":\[\{"index":(\d+)/)?.[1] ?? Number.MAX_SAFE_INTEGER);
  return frames.toSorted((a, b) => index(a) - index(b));
}

/** Reports whether a request of a case goes to this API. */
const isOurs = ({ path }: RawRequest) => !/messages|responses|batch/.test(path);

async function play(recorded: Case): Promise<void> {
  const flags = recorded.server_flags ?? [];
  const server = new CaseServer(flags);
  try {
    if (recorded.background) {
      await playDuring(server, recorded, recorded.background, flags);
      return;
    }
    for (const exchange of recorded.exchanges ?? [recorded]) {
      if (recorded.exchanges && !isOurs(exchange.request)) continue;
      server.engine = engineFor(exchange, server.engine);
      const raw = await server.play(exchange);
      expect(actual(raw, exchange, recorded.free_order ?? false)).toEqual(
        expected(exchange, recorded.free_order ?? false),
      );
      expectTranslation(server.engine, exchange);
    }
    expect(server.outcomes.length).toBe(server.opened);
  } finally {
    await server.close();
  }
}

function engineFor({ script, request }: Exchange, before: ScriptedEngine): ScriptedEngine {
  const engine = new ScriptedEngine(script ?? null, before.cache);
  const repetition = (request.body as { repetition_detection?: { min_count: number } } | undefined)
    ?.repetition_detection;
  if (repetition) engine.repetitionAt = repetition.min_count;
  return engine;
}

/** Plays a request that arrives during another one. */
async function playDuring(
  server: CaseServer,
  front: Case,
  background: Exchange,
  flags: readonly string[],
): Promise<void> {
  server.engine = engineFor(background, server.engine);
  server.engine.queueLimit = Number(flag(flags, "--max-num-queued-reqs")?.[0] ?? Number.POSITIVE_INFINITY);
  server.engine.holdAfter = background.hold_after ?? 1;
  const backgroundAnswer = server.play(background);
  while (server.engine.received.length === 0) await new Promise(setImmediate);
  if (front.request.path.startsWith("/pause")) {
    while (server.engine.steps < server.engine.holdAfter) await new Promise(setImmediate);
    server.engine.abortAll();
  } else {
    expect(actual(await server.play(front), front, false)).toEqual(expected(front, false));
    server.engine.holdAfter = Number.POSITIVE_INFINITY;
    void server.engine.run();
  }
  expect(actual(await backgroundAnswer, background, false)).toEqual(expected(background, false));
}

/** Checks prompts, limits and ends that the engine got. */
function expectTranslation(engine: ScriptedEngine, { engine_requests, request }: Exchange): void {
  const sent = (engine_requests ?? []).map(({ prompt_token_ids, params }) => ({
    promptIds: prompt_token_ids,
    maxTokens: params.max_tokens,
    minTokens: params.min_tokens ?? 0,
    stopTokenIds: params.stop_token_ids ?? [],
    ignoreEos: params.ignore_eos ?? false,
  }));
  const got = engine.received.map(({ promptIds, generation }) => ({
    promptIds,
    maxTokens: generation.maxTokens,
    minTokens: generation.minTokens,
    stopTokenIds: generation.stopTokenIds,
    ignoreEos: generation.ignoreEos,
  }));
  expect(got, `${request.method} ${request.path}`).toEqual(sent as typeof got);
}

describe("recorded answers", () => {
  for (const recorded of cases) {
    const reason = OUT_OF_SCOPE[recorded.name];
    if (reason === undefined) test(recorded.name, () => play(recorded));
    else
      test(`${recorded.name} is out of scope: ${reason}`, async () => {
        const passes = await play(recorded).then(
          () => true,
          () => false,
        );
        expect(passes).toBe(false);
      });
  }

  test("every listed case exists", () => {
    expect(Object.keys(OUT_OF_SCOPE).filter((name) => !cases.some((recorded) => recorded.name === name))).toEqual([]);
  });
});
