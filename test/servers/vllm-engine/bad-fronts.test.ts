/** Tests front ends that speak another protocol, fall silent or leave in any phase, and floods: the engine waits and can be joined. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { WallClock } from "../../../src/base/clock.ts";
import { ZmtpSocket } from "../../../src/wire/zmtp/socket.ts";
import { type HostedServer, hosted } from "../../hosted.ts";
import { sized } from "../../size.ts";
import { encoded, mapOf, SmallFront } from "./small-front.ts";

setDefaultTimeout(60_000);

const clock = new WallClock();
const timer = { nowUs: () => clock.now(), after: (us: number, act: () => void) => clock.at(clock.now() + us, act) };
const start = (rpcPort: number) =>
  hosted([
    ...["--role=vllm-engine", `--data-parallel-rpc-port=${rpcPort}`, "--seed=1", "--max-model-len=200"],
    "--timing=constant:ttft=5ms,itl=2ms",
  ]);
async function until(isDone: () => boolean): Promise<void> {
  for (let turns = 0; !isDone(); turns++) {
    if (turns > 5000) throw new Error("it did not happen");
    await Bun.sleep(2);
  }
}

let port: number;
let server: HostedServer;
beforeAll(async () => {
  const front = new SmallFront();
  port = front.rpcPort;
  await front.close();
  server = await start(port);
});
afterAll(async () => {
  clock.close();
  await server.stop(0);
});

const occurrences = (text: string) => server.output().split(text).length - 1;

test("a port that speaks HTTP is named once, and the engine goes on trying", async () => {
  const http = Bun.serve({ port, hostname: "127.0.0.1", fetch: () => new Response("x") });
  await until(() => occurrences("is no front end of vLLM") > 0);
  await Bun.sleep(700);
  await http.stop(true);
  expect(occurrences(`127.0.0.1:${port} is no front end of vLLM, trying again: a ZeroMQ peer was closed`)).toBe(1);
});

/** Lets the engine join up to a phase, and leaves. */
async function leavesAfter(phase: "greeting" | "HELLO" | "INIT" | "nonsense"): Promise<void> {
  const hello = Promise.withResolvers<void>();
  const own: ZmtpSocket = new ZmtpSocket("ROUTER", {
    timer,
    onJoin: () => phase === "greeting" && hello.resolve(),
    onMessage(_, peer) {
      const addresses = { inputs: ["tcp://127.0.0.1:9"], outputs: ["tcp://127.0.0.1:9"] };
      if (phase === "INIT")
        own.sendTo(peer, [encoded(mapOf({ addresses: mapOf(addresses), parallel_config: new Map() }))]);
      if (phase === "nonsense") own.sendTo(peer, [Buffer.from("c1", "hex")]);
      setTimeout(hello.resolve, 20);
    },
  });
  own.bind(`tcp://127.0.0.1:${port}`);
  await hello.promise;
  await own.close();
}

test.each(["greeting", "HELLO", "INIT", "nonsense"] as const)(
  "a front end that leaves after %s is forgotten",
  async (phase) => {
    await leavesAfter(phase);
    expect((await fetch(`${server.url}/health`)).status).toBe(503);
    const front = new SmallFront(port);
    await front.until(() => front.statuses.includes("READY"));
    front.add("served", { max_tokens: 2 });
    await front.until(() => front.ended.has("served"));
    await front.close();
  },
);

test("an abort before its request changes nothing, and the request runs", async () => {
  const front = new SmallFront(port);
  await front.until(() => front.statuses.includes("READY"));
  front.abort("early");
  front.add("early", { max_tokens: 3 });
  await front.until(() => front.ended.has("early"));
  expect(front.outputsOf("early")).toHaveLength(3);
  await front.close();
});

test("each request of a flood is answered, above the engine's limit with an error", async () => {
  const front = new SmallFront(port);
  await front.until(() => front.statuses.includes("READY"));
  const count = sized("fronts", { sample: 3000, whole: 70_000 });
  front.call(1, "pause_generation", "keep", false);
  for (let at = 0; at < count; at++) {
    front.add(`flood-${at}`, { max_tokens: 1 });
    if (at % 500 === 0) await Bun.sleep(1);
  }
  front.call(2, "resume_scheduler");
  await until(() => front.ended.size >= count);
  const refused = front.messages.flatMap(({ outputs }) => outputs.filter(({ finish_reason }) => finish_reason === 3));
  expect(refused.length).toBe(Math.max(0, count - 65_536));
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
  await front.close();
});
