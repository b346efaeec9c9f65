/**
 * Tests the events of a running server with pyzmq's subscribers: late join, gap, replay, restart, many subscribers, one that never
 * reads. Runs with `npx bun run test kv-events`.
 */
import { afterAll, afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { freePort } from "../../bench/lib/servers.ts";
import { decodeKvEvents } from "../../src/kv-events/decode.ts";
import { type Server, serve } from "../server.ts";
import { figure, sized } from "../size.ts";
import { fetchPython, hasPython, PythonProgram } from "./python.ts";

setDefaultTimeout(300_000);

const isWhole = sized("kv-events", { sample: false, whole: true });
if (isWhole && !hasPython()) await fetchPython();

type Message = readonly [topic: string, sequence: number, payload: string];
interface Messages {
  readonly messages: Readonly<Record<string, readonly Message[]>>;
}

describe.skipIf(!isWhole)("pyzmq's subscribers", () => {
  let program: PythonProgram | null = null;
  const ask = <T>(order: string, values: object) => {
    program ??= new PythonProgram("subscribers.py");
    return program.ask<T>(order, values);
  };
  const read = async (names: readonly string[], until?: number) =>
    (await ask<Messages>("read", { names, ...(until === undefined ? {} : { until }) })).messages;
  const subscribe = (names: readonly string[], port: number, more: object = {}) =>
    ask("subscribe", { names, endpoint: `tcp://127.0.0.1:${port}`, ...more });
  const replay = (port: number, start: number) =>
    ask<{ readonly messages: readonly Message[]; readonly ended: boolean }>("replay", {
      endpoint: `tcp://127.0.0.1:${port}`,
      start,
    });
  afterAll(() => program?.stop());

  const servers: Server[] = [];
  afterEach(async () => {
    for (const server of servers.splice(0)) await server.stop();
  });

  async function started(port: number, replayPort: number, more: object = {}): Promise<Server> {
    const endpoints = { endpoint: `tcp://*:${port}`, replay_endpoint: `tcp://127.0.0.1:${replayPort}` };
    const config = JSON.stringify({ enable_kv_cache_events: true, ...endpoints, ...more });
    const server = await serve([
      ...["--timing=none", "--max-model-len=4096", "--num-gpu-blocks-override=600", "--disable-uvicorn-access-log"],
      `--kv-events-config=${config}`,
    ]);
    servers.push(server);
    return server;
  }

  let prompts = 0;
  /** Sends requests with prompts of their own, so that each step that admits one has an event. */
  async function load({ url }: Server, count: number, tokens = 64): Promise<void> {
    for (let at = 0; at < count; at += 8) {
      const body = () => {
        const first = 100 + (prompts++ % 100_000);
        const prompt = Array.from({ length: tokens }, (_, place) =>
          place === 0 ? first : 100 + ((first * place) % 90_000),
        );
        return JSON.stringify({ prompt, max_tokens: 1 });
      };
      await Promise.all(
        Array.from({ length: Math.min(8, count - at) }, async () => {
          const headers = { "content-type": "application/json" };
          const response = await fetch(`${url}/v1/completions`, { method: "POST", headers, body: body() });
          if (!response.ok) throw new Error(await response.text());
          await response.text();
        }),
      );
    }
  }
  const sequences = (messages: readonly Message[]) => messages.map(([, sequence]) => sequence);
  const run = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => from + at);
  const memoryMb = ({ pid }: Server) =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1024;

  async function droppedBatches({ url }: Server): Promise<number> {
    const page = await (await fetch(`${url}/metrics`)).text();
    return Number(/^understudy_kv_events_dropped_total\{kind="batches"\} (\S+)$/m.exec(page)![1]);
  }

  test("one that joins late gets the rest, and a replay has what it missed", async () => {
    const [port, replayPort] = [freePort(), freePort()];
    const server = await started(port, replayPort, { topic: "kv@pod@m" });
    await load(server, 40);
    await subscribe(["late"], port, { topic: "kv@" });
    await Bun.sleep(300);
    await load(server, 40);
    const live = (await read(["late"])).late!;
    expect(live.length).toBeGreaterThan(0);
    const from = live[0]![1];
    expect(from).toBeGreaterThan(0);
    expect(sequences(live)).toEqual(run(from, from + live.length - 1));
    const { messages, ended } = await replay(replayPort, 0);
    expect(ended).toBe(true);
    expect(sequences(messages)).toEqual(run(0, live.at(-1)![1]));
    expect(messages.slice(from)).toEqual([...live]);
    const { frames } = await ask<{ frames: string[] }>("first_reply", {
      endpoint: `tcp://127.0.0.1:${replayPort}`,
      start: 3,
    });
    expect(frames.slice(1)).toEqual(["0000000000000003", messages[3]![2]]);
    await ask("close", { names: ["late"] });
  });

  test("one that reads too slowly has a gap, which a replay fills; the server's memory stays flat", async () => {
    const [port, replayPort] = [freePort(), freePort()];
    const server = await started(port, replayPort, { hwm: 20 });
    await subscribe(["slow"], port, { hwm: 1 });
    await Bun.sleep(300);
    await load(server, 2000, 1024);
    const beforeMb = memoryMb(server);
    await load(server, 4000, 1024);
    const grownMb = memoryMb(server) - beforeMb;
    const some = (await read(["slow"])).slow!;
    await load(server, 8);
    const rest = (await read(["slow"])).slow!;
    const all = sequences([...some, ...rest]);
    const gap = all.findIndex((sequence, at) => at > 0 && sequence !== all[at - 1]! + 1);
    expect(gap).toBeGreaterThan(0);
    const { messages } = await replay(replayPort, 0);
    const missed = new Set(sequences(messages));
    const last = all.at(-1)!;
    const lost = run(Math.max(0, last - 9000), last).filter((sequence) => !missed.has(sequence));
    // On a busy machine the publisher may be too slow. What it drops is counted on the page, which is some time behind.
    for (let at = 0; at < 50 && (await droppedBatches(server)) !== lost.length; at++) await Bun.sleep(100);
    expect(await droppedBatches(server)).toBe(lost.length);
    expect(server.output()).toContain("to subscribers that do not read");
    figure("MiB more after 4,000 requests with a subscriber that does not read", Math.round(grownMb));
    // The batches that are kept for replays grow, by some 10 KB each.
    expect(grownMb).toBeLessThan(150);
    await ask("close", { names: ["slow"] });
  });

  test("50 subscribers get the same messages without a gap", async () => {
    const [port, replayPort] = [freePort(), freePort()];
    const server = await started(port, replayPort);
    const names = Array.from({ length: 50 }, (_, at) => `subscriber ${at}`);
    await subscribe(names, port);
    await Bun.sleep(500);
    await load(server, 200);
    const { messages } = await replay(replayPort, 0);
    const last = messages.at(-1)![1];
    const got = await read(names, last);
    for (const name of names) expect(got[name]!).toEqual([...messages]);
    figure("messages to 50 subscribers", messages.length * names.length);
    await ask("close", { names });
  });

  test("a restart begins again at 0, and the subscriber is joined again", async () => {
    const [port, replayPort] = [freePort(), freePort()];
    const first = await started(port, replayPort);
    await subscribe(["patient"], port);
    await Bun.sleep(300);
    await load(first, 16);
    const before = (await read(["patient"])).patient!;
    expect(sequences(before)).toEqual(run(before[0]![1], before.at(-1)![1]));
    await first.stop();
    servers.length = 0;
    const second = await started(port, replayPort);
    await Bun.sleep(1000);
    // libzmq subscribes again when its socket is used.
    expect((await read(["patient"])).patient).toEqual([]);
    await load(second, 16);
    const after = (await read(["patient"])).patient!;
    expect(after[0]![1]).toBe(0);
    expect(sequences(after)).toEqual(run(0, after.length - 1));
    const events = after.flatMap(([, , payload]) => decodeKvEvents(Buffer.from(payload, "hex")).events);
    expect(events.every(({ event }) => event.type === "BlockStored")).toBe(true);
    await ask("close", { names: ["patient"] });
  });
});
