/**
 * Checks that each action changes the metrics of a live server like those of vLLM 0.33. The recorded sequence is played over
 * raw sockets with the recordings' tokenizer and tokens. After each action, every sample of `/metrics` that does not depend
 * on time or machine must have moved as recorded, and no other.
 * Moves vllm:admission_rejections_total.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type HostedServer, hosted } from "../hosted.ts";
import { parseExposition } from "../metrics/parse.ts";
import type { Request } from "./api/cases.ts";
import { compact, slice } from "./api/json-slices.ts";
import { exchange, requestBytes } from "./api/wire.ts";

setDefaultTimeout(60_000);

interface Step {
  readonly action: string;
  readonly request?: Request;
  readonly script?: object | null;
  readonly status?: number | readonly number[];
  readonly client_leaves_after_steps?: number;
  readonly engine_stands_still_after_steps?: number;
  readonly delta: Readonly<Record<string, number>>;
}

const here = new URL("./", import.meta.url).pathname;
const text = readFileSync(`${here}recorded/vllm-0.33-metrics-after-sequence.json`, "utf8");
const sent = slice(text)
  .members.get("steps")!
  .items.map((step) => step.members.get("request")?.members.get("body"));
const steps: readonly Step[] = (JSON.parse(text).steps as Step[]).map((step, i) => {
  const body = sent[i];
  if (!step.request || !body) return step;
  return { ...step, request: { ...step.request, sent: compact(text.slice(body.from, body.to)) } };
});
const FLAGS = [
  ..."--model model --served-model-name golden --no-async-scheduling --max-num-batched-tokens 4096".split(" "),
  ..."--max-num-seqs 64 --block-size 16 --num-gpu-blocks-override 512 --max-model-len 1024".split(" "),
  ..."--timing none --disable-uvicorn-access-log --max-num-queued-reqs 3".split(" "),
  ..."--tool-call-parser hermes --enable-auto-tool-choice".split(" "),
];
const plain = (body: string) => body;

let server: HostedServer;
let folder: string;
let port: number;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "understudy-metrics-"));
  const script = join(folder, "scripts.json");
  const scripts = steps.flatMap(({ action, script, ...step }) => {
    if (!script) return [];
    const after = step.client_leaves_after_steps ?? step.engine_stands_still_after_steps;
    return [{ name: action, ...script, ...(after === undefined ? {} : { hold_after: after }) }];
  });
  writeFileSync(script, JSON.stringify({ scripts }));
  server = await hosted([...FLAGS, "--tokenizer", `${here}model`, "--script", script]);
  port = Number(new URL(server.url).port);
  before = await samples();
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

/** Matches samples that depend on time, and those that only we have. */
const LEFT_OUT = /_created|_seconds(_\w+)?_(sum|bucket)|^(process|python|understudy)_|^http_.*_bucket/;
async function samples(): Promise<Map<string, number>> {
  const page = await (await fetch(`${server.url}/metrics`)).text();
  const named = parseExposition(page).flatMap(({ samples }) =>
    samples.map(({ name, labels, value }) => {
      const shown = labels.filter(([label]) => label !== "engine" && label !== "model_name").sort();
      return [shown.length === 0 ? name : `${name}{${shown.map(([l, v]) => `${l}="${v}"`).join(",")}}`, value] as const;
    }),
  );
  return new Map(named.filter(([key]) => !LEFT_OUT.test(key)));
}

let before: Map<string, number>;
/** Returns the changes since the last call, when no sample moves any more. */
async function delta(): Promise<Record<string, number>> {
  let after = await samples();
  for (let last = ""; last !== JSON.stringify([...after]); ) {
    last = JSON.stringify([...after]);
    await Bun.sleep(30);
    after = await samples();
  }
  const moved = [...after].map(([key, value]) => [key, value - (before.get(key) ?? 0)] as const);
  before = after;
  return Object.fromEntries(moved);
}
const rounded = (changes: Readonly<Record<string, number>>) =>
  Object.fromEntries(
    Object.entries(changes)
      .filter(([key, by]) => !LEFT_OUT.test(key) && by !== 0)
      .map(([key, by]) => [key, Number(by.toFixed(12))]),
  );

const get = async (path: string) => (await fetch(server.url + path)).status;
const go = () => exchange({ method: "GET", path: "/health" }, port, plain, { "X-Understudy": '{"release":true}' });

/** The connection of a request that stays in the engine. */
let held: net.Socket | null = null;

/** Returns the status, or those of several requests. Undefined if no answer was awaited. */
async function act({ action, request, script, ...step }: Step): Promise<number | number[] | undefined> {
  if (action.startsWith("nothing")) return undefined;
  if (action.startsWith("health"))
    return [await get("/health"), await get("/ping"), await get("/version"), await get("/load")];
  if (action.startsWith("models")) {
    const tokenize = { method: "POST", path: "/tokenize", sent: '{"prompt":"x"}' };
    return [await get("/v1/models"), (await exchange(tokenize, port, plain)).response.status];
  }
  if (action === "the same request has ended") {
    await go();
    await Bun.sleep(100);
    held!.destroy();
    return undefined;
  }
  const order: Record<string, string> = script ? { "X-Understudy": JSON.stringify({ play: action }) } : {};
  const leaves = step.client_leaves_after_steps !== undefined;
  if (!leaves && step.engine_stands_still_after_steps === undefined)
    return (await exchange(request!, port, plain, order)).response.status;
  const socket = net.connect(port, "127.0.0.1");
  socket.on("error", () => {});
  socket.write(requestBytes(request!, port, order));
  await Bun.sleep(200);
  if (!leaves) {
    held = socket;
    return undefined;
  }
  socket.destroy();
  await Bun.sleep(100);
  await go();
  return undefined;
}

test("the whole sequence is played", () => expect(steps.length).toBe(28));

test.each(steps.map((step) => [step.action, step] as const))("%s: the samples change as recorded", async (_, step) => {
  const status = await act(step);
  expect(status).toEqual(step.status as never);
  expect(rounded(await delta())).toEqual(rounded(step.delta));
});
