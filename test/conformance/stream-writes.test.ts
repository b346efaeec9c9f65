/** Does each client get its own stream, whole, over real sockets, when connections come and go in the middle of steps? */
import { expect, setDefaultTimeout, test } from "bun:test";
import { FRONT_LIMITS } from "../../src/config/front-limits.ts";
import { seeded } from "../../src/host/random.ts";
import type { EventSink } from "../../src/http/sink.ts";
import { nativeSend } from "../../src/http/socket/native-send.ts";
import { SendBatch } from "../../src/http/socket/send-batch.ts";
import { HttpServer } from "../../src/http/socket/server.ts";
import { eventually, serve } from "../server.ts";
import { figure, seed, sized } from "../size.ts";

const EVENTS = sized("descriptors", { sample: 150_000, whole: 10_000_000 });
setDefaultTimeout(sized("descriptors", { sample: 120_000, whole: 3_600_000 }));

const LIVE = 80;
const NOTHING = Buffer.alloc(0);
const LAST = "0\r\n\r\n";

/** Says whose it is and the how manieth; those of every eighth stream are long, so that they fill what a socket holds. */
function eventOf(id: number, seq: number): string {
  const text = `[${id}:${seq}]`;
  return id % 8 === 0 ? text.padEnd(20_000, `${id},`) : text;
}

/** Reads one stream, and throws at the first byte that is not its own. */
class Client {
  seq = 0;
  ended = false;
  closed = false;
  wrong: string | null = null;
  socket: Bun.Socket | null = null;
  #text = "";
  #inHead = true;

  constructor(readonly id: number) {}

  data(bytes: Buffer): void {
    this.#text += bytes.toString("latin1");
    if (this.#inHead) {
      const at = this.#text.indexOf("\r\n\r\n");
      if (at < 0) return;
      this.#text = this.#text.slice(at + 4);
      this.#inHead = false;
    }
    let at = 0;
    while (this.wrong === null && at < this.#text.length && !this.ended) {
      const event = eventOf(this.id, this.seq);
      const wanted = `${event.length.toString(16)}\r\n${event}\r\n`;
      if (this.#text.startsWith(wanted, at)) {
        this.seq++;
        at += wanted.length;
      } else if (this.#text.startsWith(LAST, at)) this.ended = true;
      else {
        const rest = this.#text.slice(at);
        if (!wanted.startsWith(rest) && !LAST.startsWith(rest)) this.wrong = rest.slice(0, 200);
        break;
      }
    }
    this.#text = this.#text.slice(at);
  }
}

interface Served {
  readonly stream: EventSink;
  readonly client: Client;
  sent: number;
  over: boolean;
}

class Crowd {
  readonly served = new Map<number, Served>();
  readonly clients: Client[] = [];
  /** Streams that were ended as they should be. */
  readonly ended: Served[] = [];
  readonly #draw = seeded(seed);
  readonly #server: HttpServer;
  events = 0;
  opened = 0;
  short = 0;

  constructor(readonly sends: SendBatch) {
    this.#server = new HttpServer(
      { fetch: (request) => this.#serve(request) },
      {
        ...{ hostname: "127.0.0.1", port: 0, tls: undefined, reusePort: false, frontLimits: FRONT_LIMITS, sends },
        clock: { now: () => 0, at: () => () => {}, turn: setImmediate },
        warn() {},
        epochSeconds: () => 0,
      },
    );
  }

  #serve(request: Request): Response {
    const id = Number(new URL(request.url).pathname.slice(1));
    const client = this.clients[id]!;
    const gone = () => {
      one.over = true;
    };
    const stream = this.#server.open(request, { onDrain: () => {}, onGone: gone }, null);
    const one: Served = { stream, client, sent: 0, over: false };
    this.served.set(id, one);
    return this.#server.begin(request, 200, {});
  }

  open(): void {
    const client = new Client(this.opened++);
    this.clients.push(client);
    void Bun.connect({
      hostname: "127.0.0.1",
      port: this.#server.port,
      socket: {
        open: (socket) => {
          client.socket = socket;
          socket.write(`GET /${client.id} HTTP/1.1\r\nHost: x\r\n\r\n`);
        },
        data: (_, bytes) => client.data(bytes),
        close: () => {
          client.closed = true;
        },
      },
    }).catch(() => {
      client.closed = true;
    });
  }

  /** An event for each stream that is not full, and now and then one of the things that end or hinder one. */
  step(): void {
    this.sends.begin();
    for (const one of this.served.values()) {
      if (one.over) continue;
      if (!one.stream.full) {
        one.stream.writeParts(Buffer.from(eventOf(one.client.id, one.sent++)), NOTHING, NOTHING);
        this.events++;
      } else this.short++;
      if (this.#draw() % 500 === 0) this.#disturb();
    }
    this.sends.end();
    for (const [id, { over }] of this.served) if (over) this.served.delete(id);
    const live = this.clients.length - this.#gone;
    for (let i = live; i < LIVE; i++) this.open();
  }

  get #gone(): number {
    return this.clients.reduce((count, { closed, ended }) => count + (closed || ended ? 1 : 0), 0);
  }

  #disturb(): void {
    const all = [...this.served.values()].filter(({ over }) => !over);
    const one = all[this.#draw() % Math.max(1, all.length)];
    if (one === undefined) return;
    const { client, stream } = one;
    const what = this.#draw() % 7;
    if (what === 0) client.socket?.terminate();
    else if (what === 1) client.socket?.end();
    else if (what === 2) this.open();
    else if (what === 3) client.socket?.pause();
    else if (what === 4) for (const each of all) each.client.socket?.resume();
    else {
      one.over = true;
      if (what === 5) this.#end(one);
      else stream.reset();
    }
  }

  #end(one: Served): void {
    this.ended.push(one);
    one.stream.end();
  }

  async close(): Promise<void> {
    for (const { socket } of this.clients) socket?.resume();
    for (const one of this.served.values()) if (!one.over) this.#end(one);
    await eventually(() => [...this.served.values()].every(({ client }) => client.ended || client.closed));
    await this.#server.stop(true);
  }
}

const native = await nativeSend();

test.skipIf(process.platform !== "linux")(
  "connections that come, go, stall and are reset in the middle of steps: no byte in a wrong stream",
  async () => {
    if (typeof native !== "function") throw new Error(native.refused);
    const crowd = new Crowd(new SendBatch(native));
    while (crowd.events < EVENTS) {
      crowd.step();
      await new Promise(setImmediate);
    }
    await crowd.close();
    expect(crowd.clients.flatMap(({ id, wrong }) => (wrong === null ? [] : [`${id}: ${wrong}`]))).toEqual([]);
    // Who saw the end got all that was written.
    const whole = crowd.ended.filter(({ client }) => client.ended);
    expect(whole.map(({ client }) => client.seq)).toEqual(whole.map(({ sent }) => sent));
    expect(whole.length).toBeGreaterThan(LIVE / 2);
    expect(crowd.opened).toBeGreaterThan(2 * LIVE);
    expect(crowd.short).toBeGreaterThan(0);
    figure("events", crowd.events);
    figure("connections", crowd.opened);
    figure("withheld from full streams", crowd.short);
  },
);

test.skipIf(process.platform !== "linux")("the server says how events leave, and refuses what cannot be", async () => {
  const server = await serve(["--stream-writes", "batched", "--timing", "none"]);
  try {
    await eventually(() => server.output().includes("  try  "));
    expect(server.output()).toContain("\n  writes      all events of a step in one native call\n");
    const page = await (await fetch(`${server.url}/metrics/understudy`)).text();
    expect(page).toContain('understudy_stream_writes_info{mode="batched"} 1');
  } finally {
    await server.stop();
  }
  expect(serve(["--stream-writes", "batched", "--self-signed-certs"])).rejects.toThrow(
    "understudy serve: --stream-writes batched: not here, TLS is Bun's; auto takes what can be done",
  );
});
