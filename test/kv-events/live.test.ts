/** Tests the KV events of running servers of each role, over our own SUB and DEALER sockets. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { WallClock } from "../../src/base/clock.ts";
import type { BlockStored } from "../../src/kv-events/batch.ts";
import { BlockHasher, extraKeysOf } from "../../src/kv-events/block-hashes.ts";
import { type DecodedKvEvent, decodeKvEvents } from "../../src/kv-events/decode.ts";
import { sequenceFrame } from "../../src/kv-events/replay.ts";
import { pacing } from "../../src/wire/http/deadlines.ts";
import { ZmtpSocket } from "../../src/wire/zmtp/socket.ts";
import { type HostedServer, hosted, hostedAs } from "../hosted.ts";

setDefaultTimeout(30_000);

const timer = pacing(new WallClock());
const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});
const EMPTY = Buffer.alloc(0);
const LOCAL = "tcp://127.0.0.1:*";
const BLOCK = 16;

type Sources = Readonly<Record<string, { readonly endpoint: string; readonly replay_endpoint: string }>>;

interface ReceivedBatch {
  readonly sequence: number;
  readonly rank: number | null;
  readonly events: readonly DecodedKvEvent[];
}

const received = (frames: readonly Uint8Array[]): ReceivedBatch => {
  const { events, dataParallelRank } = decodeKvEvents(Buffer.from(frames[2]!));
  return { sequence: Number(Buffer.from(frames[1]!).readBigUInt64BE()), rank: dataParallelRank, events };
};

/** Waits for the messages of a collector that binds, to which the server connects. Joins before the first request. */
async function collecting(start: (flags: readonly string[]) => Promise<HostedServer>, more: readonly string[] = []) {
  const got: ReceivedBatch[] = [];
  const peers = { joined: 0 };
  const collector = new ZmtpSocket("SUB", {
    timer,
    onJoin: () => peers.joined++,
    onMessage: (frames) => got.push(received(frames)),
  });
  collector.subscribe(EMPTY);
  const endpoint = collector.bind(LOCAL);
  open.push(() => collector.close());
  const config = JSON.stringify({ enable_kv_cache_events: true, endpoint });
  const server = await start([`--kv-events-config=${config}`, ...more]);
  open.push(() => server.stop(0));
  await until(() => peers.joined > 0);
  return { server, got };
}

async function until(isDone: () => boolean): Promise<void> {
  for (let turns = 0; !isDone(); turns++) {
    if (turns > 8000) throw new Error("it did not happen");
    await Bun.sleep(1);
  }
}

async function post(url: string, path: string, body: object, headers: Record<string, string> = {}) {
  const response = await fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.status} ${text}`);
  return text;
}

const PROMPT = Array.from({ length: 40 }, (_, at) => 100 + at);
const completion = (more: object = {}) => ({ prompt: PROMPT, max_tokens: 4, temperature: 0, ...more });
const storedIn = (messages: readonly ReceivedBatch[]) =>
  messages.flatMap(({ events }) => events).flatMap(({ event }) => (event.type === "BlockStored" ? [event] : []));

/** Returns the hashes of the prompt's full blocks, as integers. */
function hashesOf(hasher: BlockHasher, lora: { name: string; path: string } | null, salt: string): bigint[] {
  const hashes: bigint[] = [];
  let parent: Buffer | null = null;
  for (let at = 0; (at + 1) * BLOCK <= PROMPT.length; at++) {
    parent = hasher.hash(parent, PROMPT.slice(at * BLOCK, (at + 1) * BLOCK), extraKeysOf(lora, salt, at === 0));
    hashes.push(parent.readBigUInt64BE(24));
  }
  return hashes;
}

test("a server publishes salt and adapters, and a reset with the next step, and its sources show the address", async () => {
  const flags = ["--timing=none", "--enable-lora", "--lora-modules=ad=/p/ad", "--kv-events-hash-seed=11"];
  const { server, got } = await collecting(
    (more) => hosted([...flags, ...more], { VLLM_SERVER_DEV_MODE: "1" }),
    ["--prefix-caching-hash-algo=sha256_cbor"],
  );
  const sources = (await (await fetch(`${server.url}/kv_event_sources`)).json()) as Sources;
  expect(sources).toMatchObject({ "0": { publisher: "zmq", endpoint: expect.stringContaining("tcp://127.0.0.1:") } });
  expect(Object.keys(sources["0"]!)).toEqual([
    ...["enable_kv_cache_events", "publisher", "endpoint", "replay_endpoint"],
    ...["buffer_steps", "hwm", "max_queue_size", "topic"],
  ]);
  await post(server.url, "/v1/completions", completion({ model: "ad", cache_salt: "zz" }));
  await until(() => storedIn(got).length > 0);
  const hasher = new BlockHasher("sha256_cbor", "11");
  expect(storedIn(got)[0]).toMatchObject({
    blockHashes: hashesOf(hasher, { name: "ad", path: "/p/ad" }, "zz"),
    tokenIds: PROMPT.slice(0, 32),
    loraId: 1,
    loraName: "ad",
    extraKeys: [["ad", "zz"], ["ad"]],
  });
  await post(server.url, "/reset_prefix_cache", {});
  await post(server.url, "/v1/completions", completion());
  await until(() => storedIn(got).length > 1);
  expect(got.map(({ sequence }) => sequence)).toEqual(got.map((_, at) => at));
  expect(got.at(-1)!.events.map(({ event }) => event.type)).toEqual(["AllBlocksCleared", "BlockStored"]);
  expect(storedIn(got).at(-1)!.blockHashes).toEqual(hashesOf(hasher, null, ""));
});

test("each rank has its own sockets, and a late subscriber gets what it missed", async () => {
  const config = { enable_kv_cache_events: true, endpoint: LOCAL, replay_endpoint: LOCAL, topic: "kv@pod@m" };
  const server = await hosted([
    ...["--timing=none", "--data-parallel-size=2", "--kv-events-profile=0.22.0", "--no-kv-events-int-hashes"],
    `--kv-events-config=${JSON.stringify(config)}`,
  ]);
  open.push(() => server.stop(0));
  const sources = (await (await fetch(`${server.url}/kv_event_sources`)).json()) as Sources;
  expect(Object.keys(sources)).toEqual(["0", "1"]);
  await post(server.url, "/v1/completions", completion(), { "x-data-parallel-rank": "1" });
  const replies: (readonly Uint8Array[])[] = [];
  const client = new ZmtpSocket("DEALER", { timer, onMessage: (frames) => replies.push(frames.slice(1)) });
  open.push(() => client.close());
  client.connect(sources["1"]!.replay_endpoint);
  await until(() => {
    client.send([EMPTY, sequenceFrame(0)]);
    return replies.length > 1;
  });
  expect(Buffer.from(replies[0]![0]!).toString()).toBe("kv@pod@m");
  const [first] = [received(replies[0]!)];
  expect([first.sequence, first.rank]).toEqual([0, 1]);
  expect(first.events[0]!.isMap).toBe(false);
  const stored = first.events[0]!.event as BlockStored;
  const hasher = new BlockHasher("sha256", "vllm-none-hash");
  const whole = hasher.hash(null, PROMPT.slice(0, BLOCK), null);
  expect(Buffer.from(stored.blockHashes[0] as Uint8Array).equals(whole)).toBe(true);
});

test("trtllm-serve publishes next to its own events", async () => {
  const own = ["--role=trtllm-serve", "--timing=none", "--event-buffer-max-size=100", "--block-size=16"];
  const { server, got } = await collecting((more) => hosted([...own, ...more]));
  await post(server.url, "/v1/completions", completion({ model: "m" }));
  await until(() => storedIn(got).length > 0);
  expect(storedIn(got)[0]!.blockHashes.slice(0, 2)).toEqual(
    hashesOf(new BlockHasher("sha256", "vllm-none-hash"), null, ""),
  );
  const events = await post(server.url, "/kv_cache_events", {});
  expect(events).toContain("stored");
});

test("Triton's LLM models publish", async () => {
  const ports = ["--role=triton", "--http-port=0", "--grpc-port=0", "--metrics-port=0"];
  const { server, got } = await collecting((more) => hostedAs([...ports, "--timing=none", "--block-size=4", ...more]));
  const text_input = Array.from({ length: 60 }, (_, at) => `word${at}`).join(" ");
  await post(server.url, "/v2/models/vllm_model/generate", { text_input, stream: false, max_tokens: 4 });
  await until(() => storedIn(got).length > 0);
  expect(storedIn(got)[0]!.blockSize).toBe(4);
});

test("an address in use is refused with the option's name", async () => {
  const taken = new ZmtpSocket("PUB", { timer });
  open.push(() => taken.close());
  const endpoint = taken.bind("tcp://0.0.0.0:0").replace("0.0.0.0", "*");
  const config = JSON.stringify({ enable_kv_cache_events: true, endpoint });
  const why = await hosted([`--kv-events-config=${config}`]).catch((error: Error) => error.message);
  expect(why).toBe(`--kv-events-config: ${endpoint} is in use`);
});
