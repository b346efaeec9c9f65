/**
 * Checks that each action changes the same counters as in vLLM 0.33. The recorded sequence is played against our routes
 * and our core, a step at a time. After each action, every sample of the page that does not depend on time must have
 * changed as in the recording. Covers refusals, errors, clients that disconnect in mid-stream, choices and cached
 * prompts.
 */
import { afterAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import type { ServeConfig } from "../../../src/app/config/serve-config.ts";
import { idsOf } from "../../../src/base/random.ts";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";
import { Engine } from "../../../src/engine/engine.ts";
import { Accounts, HttpAccounts } from "../../../src/kernel/accounting.ts";
import { pages } from "../../../src/metrics/page.ts";
import { httpRoutes } from "../../../src/metrics/rows/http-counts.ts";
import { METHODS } from "../../../src/servers/openai/front/served.ts";
import { anthropic } from "../../../src/servers/vllm/messages/dialect.ts";
import { openai } from "../../../src/servers/vllm/openai/routes.ts";
import { responses } from "../../../src/servers/vllm/responses/dialect.ts";
import { renderChat } from "../../../src/text/tokens/chat-template.ts";
import { vocabularyOf } from "../../../src/text/tokens/vocabulary.ts";
import { application } from "../../../src/wire/http/elysia.ts";
import type { Script } from "../../conformance/scripted-engine.ts";
import { configOf, release } from "../../engine/simulated-engine.ts";
import { fakeKernel } from "../../kernel/fake-kernel.ts";
import { parseExposition } from "../parse.ts";
import { emptySnapshot, identity } from "../snapshots.ts";

interface Step {
  readonly action: string;
  readonly request?: {
    readonly method: string;
    readonly path: string;
    readonly body?: unknown;
    readonly body_text?: string;
  };
  readonly script?: Script;
  readonly status?: number;
  readonly client_leaves_after_steps?: number;
  readonly engine_stands_still_after_steps?: number;
  readonly delta: Readonly<Record<string, number>>;
}

/** Actions that are not played, and the reason. */
const NOT_PLAYED: readonly (readonly [action: RegExp, reason: string])[] = [
  [/^nothing/, "there is nothing to play"],
  [/steps of 3 tokens/, "no speculation: a step gives one token"],
  [/max-num-queued-reqs/, "no queue limit"],
  [/^(health|models)/, "the requests are not recorded; test/conformance/metrics-http.test.ts has them"],
];

const read = (name: string) => readFileSync(new URL(`../../conformance/${name}`, import.meta.url), "utf8");
const steps: readonly Step[] = JSON.parse(read("recorded/vllm-0.33-metrics-after-sequence.json")).steps;
const tokens: { special: number[]; bytes_hex: string[] } = JSON.parse(read("recorded-streams/tokens.json"));
const EOS = 1;
const vocabulary = vocabularyOf(
  tokens.bytes_hex.map((hex) => new Uint8Array(Buffer.from(hex, "hex"))),
  new Set(tokens.special),
  EOS,
);

// Options of the recorded server.
const engineConfig = configOf({
  maxModelLen: 1024,
  maxNumSeqs: 64,
  maxNumActiveSeqs: 64,
  maxNumBatchedTokens: 4096,
  maxNumScheduledTokens: 4096,
  blockSize: 16,
  numGpuBlocks: 512,
  asyncScheduling: false,
});
const config = {
  engine: engineConfig,
  models: { model: "model", servedModelNames: ["golden"], loraModules: [] },
  dataParallelSize: 1,
  openai: {
    front: { apiKeys: [] },
    answers: { streamInterval: 1, autoToolChoice: true },
    requests: { maxLogprobs: 20 },
  },
  listen: { maxBodyBytes: 2 ** 20 },
  text: { toolCallParser: "hermes" },
  faults: {},
  queue: {},
  logs: {},
} as unknown as ServeConfig;

const clock = new VirtualClock(1_000_000);
const engine = new Engine({ config: engineConfig, clock, module: release, free: false, eosId: EOS });
const routes = httpRoutes(METHODS);
const http = new HttpAccounts(routes, () => clock.now());
const accounts = new Accounts(http);
/** Prompts of one request with different lengths, as the recorded buckets show. */
const UNEQUAL: Readonly<Record<string, number>> = { Hello: 2, world: 4 };
/** Scripts of the next generations, and lengths of their prompts. */
let scripts: Uint32Array[] = [];
let promptTokens = 0;
/** The request carries its script as an order and is restricted to its grammar. */
let ordered = false;

const app = application(
  openai(
    fakeKernel({
      config,
      text: {
        model: {
          vocabulary,
          renderChat,
          endIds: [],
          generation: {},
          // Equal texts have equal ids and the recorded length.
          encoder: {
            encode: async (parts) => {
              const text = parts.filter((part) => typeof part === "string").join("");
              return Uint32Array.from(
                { length: UNEQUAL[text] ?? promptTokens },
                (_, i) => Number(Bun.hash(`${text} ${i}`) % 500n) + 10,
              );
            },
            close() {},
          },
        },
      },
      backend: {
        submit: (generation, receiver) => {
          const script = scripts.shift()!;
          return engine.submit(ordered ? generation : { ...generation, script }, receiver);
        },
        nowUs: () => clock.now(),
        spare: async () => {},
        consumed() {},
      },
      metrics: { accounting: accounts, httpAccounts: http },
      time: { epochSeconds: () => 1_795_235_666 },
      chance: { newId: idsOf(null) },
    }),
    [anthropic(false), responses(0)],
  ),
);
const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: app.handle });
afterAll(() => server.stop(true));

const render = pages({ ...identity, modelName: "golden", http: routes, parsesTools: true });

/** Excludes samples that depend on time. The others change by whole numbers only. */
const TIMES = /_created|_seconds_sum|_seconds_bucket/;
/** Families that are not shown, see docs/reference/metrics.md. */
const NOT_SHOWN = /^vllm:tool_call_parser_invocations_total/;
async function samples(): Promise<Map<string, number>> {
  const snapshot = { ...emptySnapshot([engine.snapshot()]), front: accounts.snapshot() };
  const page = await render("vllm", () => snapshot);
  const all = parseExposition(page).flatMap(({ samples }) => samples);
  const named = all.map(({ name, labels, value }) => {
    const shown = labels.filter(([label]) => label !== "engine" && label !== "model_name");
    return [shown.length === 0 ? name : `${name}{${shown.map(([l, v]) => `${l}="${v}"`).join(",")}}`, value] as const;
  });
  return new Map(named.filter(([key]) => !TIMES.test(key)));
}

let before: Map<string, number>;
/** Returns the changes since the last call. */
async function delta(): Promise<Record<string, number>> {
  const after = await samples();
  const moved = [...after].map(([key, value]) => [key, value - (before.get(key) ?? 0)] as const);
  before = after;
  return Object.fromEntries(moved.filter(([, by]) => by !== 0));
}
const rounded = (changes: Readonly<Record<string, number>>) =>
  Object.fromEntries(
    Object.entries(changes)
      .filter(([key, by]) => !TIMES.test(key) && !NOT_SHOWN.test(key) && by !== 0)
      .map(([key, by]) => [key, Number(by.toFixed(12))]),
  );

/** Lets sockets and promises run until `ready`. */
async function until(ready: () => boolean): Promise<void> {
  for (let turn = 0; !ready(); turn++) {
    if (turn > 2000) throw new Error("it did not come about");
    await Bun.sleep(1);
  }
}
const aStep = () => clock.advanceTo(Number.isFinite(clock.nextUs()) ? clock.nextUs() : clock.now());

async function play(step: Step): Promise<void> {
  const { method, path, body, body_text } = step.request!;
  scripts = (step.script?.sequences ?? []).map(({ steps }) => {
    const ids = steps.flat();
    return Uint32Array.from(ids.at(-1) === EOS ? ids.slice(0, -1) : ids);
  });
  const wanted = scripts.length;
  promptTokens = (step.delta["vllm:prompt_tokens_total"] ?? 0) / Math.max(1, wanted);
  ordered = /^engine-side error|grammar rejects/.test(step.action);
  const left = new AbortController();
  let done = false;
  const answer = fetch(`http://127.0.0.1:${server.port}${path}`, {
    method,
    headers: {
      "content-type": "application/json",
      ...(ordered ? { "x-understudy": JSON.stringify({ script: step.script }) } : {}),
    },
    signal: left.signal,
    ...(method === "GET" ? {} : { body: body_text ?? JSON.stringify(body) }),
  })
    .then(async (response) => {
      await response.text();
      return response.status;
    })
    .catch(() => null)
    .finally(() => {
      done = true;
    });
  await until(() => done || engine.live === wanted);
  const leavesAfter =
    step.client_leaves_after_steps ?? step.engine_stands_still_after_steps ?? Number.POSITIVE_INFINITY;
  clock.advanceTo(clock.now());
  for (let at = 0; at < leavesAfter && engine.live > 0; at++) {
    aStep();
    await Bun.sleep(1);
  }
  if (step.engine_stands_still_after_steps !== undefined) {
    later = answer;
    return;
  }
  if (step.client_leaves_after_steps !== undefined) {
    left.abort();
    await until(() => engine.live === 0);
    aStep();
    await answer;
  } else expect(await answer).toBe(step.status!);
  await until(() => accounts.requestsOpen === 0);
  await Bun.sleep(5);
}
let later: Promise<number | null> | null = null;

test("each action that is not played has a reason, and each reason an action", () => {
  expect(steps.length).toBe(28);
  for (const [pattern] of NOT_PLAYED) expect(steps.some(({ action }) => pattern.test(action))).toBe(true);
});

const played = steps.filter(({ action }) => !NOT_PLAYED.some(([pattern]) => pattern.test(action)));
before = await samples();

test.each(played.map((step) => [step.action, step] as const))(
  "%s: the samples change as recorded",
  async (action, step) => {
    if (action === "the same request has ended") {
      while (engine.live > 0) {
        aStep();
        await Bun.sleep(1);
      }
      expect(await later).toBe(200);
      await until(() => accounts.requestsOpen === 0);
      await Bun.sleep(5);
    } else await play(step);
    expect(rounded(await delta())).toEqual(rounded(step.delta));
  },
);
