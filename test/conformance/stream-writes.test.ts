/**
 * Checks that each client gets its stream complete over real sockets, while connections open and close in the middle of
 * steps.
 */

import { expect, setDefaultTimeout, test } from "bun:test";
import { seeded } from "../../src/base/random.ts";
import { type Lane, Lanes, TokenTexts } from "../../src/engine/interface/lanes.ts";
import type { Finish, Receiver } from "../../src/engine/interface/types.ts";
import type { LiveRequest } from "../../src/engine/live.ts";
import type { HttpRequest } from "../../src/wire/http/request.ts";
import type { EventSink } from "../../src/wire/http/sink.ts";
import { HttpServer } from "../../src/wire/http1/server.ts";
import { nativeLanes } from "../../src/wire/lanes/native-lanes.ts";
import { Outbox } from "../outbox.ts";
import { eventually, serve } from "../server.ts";
import { figure, seed, sized } from "../size.ts";
import { LOCAL } from "../wire/http1/local-options.ts";

const EVENTS = sized("descriptors", { sample: 150_000, whole: 10_000_000 });
setDefaultTimeout(sized("descriptors", { sample: 120_000, whole: 3_600_000 }));

const MODEL = "meta-llama/Llama-3.1-8B-Instruct";
const LIVE = 80;
const CLOSING = Buffer.from("]");
const LAST = "0\r\n\r\n";

/** Number of tokens with a distinct text. The next id is for a long event. */
const TEXTS = 4096;
const LONG = TEXTS;

/** Returns an event with the stream's id and the event's number. Long events fill the socket's buffer. */
function eventOf(id: number, seq: number, long: boolean): string {
  const text = `[${id}:${seq % TEXTS}]`;
  return long ? text.padEnd(200_000, `${id},`) : text;
}

/** Reads one stream and records the first byte that does not belong to it. */
class Client {
  seq = 0;
  ended = false;
  closed = false;
  wrong: string | null = null;
  paused = false;
  /** Numbers of the long events. */
  readonly long = new Set<number>();
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
      const event = eventOf(this.id, this.seq, this.long.has(this.seq));
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

/** The server's side of a stream: one event per token, and none while the client is slow. */
class ServedStream implements Receiver {
  live!: LiveRequest;
  sent = 0;
  direct = 0;
  over = false;
  /** Called in the middle of a step, when the stream gets its row. */
  disturb: (() => void) | null = null;
  #lane: Lane | null = null;
  readonly #prefix: Buffer;

  constructor(
    readonly stream: EventSink,
    readonly client: Client,
  ) {
    this.#prefix = Buffer.from(`[${client.id}:`);
  }

  onTokens(ids: Int32Array, at: number, count: number, _finish: Finish | null): void {
    this.disturb?.();
    this.disturb = null;
    for (const id of ids.subarray(at, at + count)) {
      if (this.over || this.stream.full) return;
      const seq = this.sent++;
      if (id === LONG) {
        this.client.long.add(seq);
        this.stream.write(eventOf(this.client.id, seq, true));
        continue;
      }
      const text = Buffer.from(`${id}`);
      this.stream.writeParts(this.#prefix, text, CLOSING);
      this.#lane ??= this.live.lane(this, this.stream.laneEnd!, this.#prefix, CLOSING);
      if (count === 1) this.#lane!.goOn(id, text);
    }
  }

  went(tokens: number): void {
    this.sent += tokens;
    this.direct += tokens;
  }

  leave(): void {
    this.over = true;
    // A client that does not read would miss the end and keep its place.
    this.client.paused = false;
    this.client.socket?.resume();
    this.live.cancel();
  }
}

class Crowd {
  readonly served = new Map<number, ServedStream>();
  readonly clients: Client[] = [];
  /** Streams that ended normally. */
  readonly ended: ServedStream[] = [];
  readonly #draw = seeded(seed);
  readonly #server: HttpServer;
  readonly #outbox: Outbox;
  events = 0;
  direct = 0;
  opened = 0;
  short = 0;

  constructor(lanes: Lanes) {
    this.#outbox = new Outbox(lanes);
    this.#server = new HttpServer(
      { fetch: (request) => this.#serve(request) },
      {
        ...LOCAL,
      },
    );
  }

  #serve(request: HttpRequest): Response {
    const id = Number(new URL(request.url).pathname.slice(1));
    const client = this.clients[id]!;
    const stream = this.#server.open(request, { onDrain: () => {}, onGone: () => served.leave() }, null);
    const served = new ServedStream(stream, client);
    served.live = this.#outbox.add(served);
    this.served.set(id, served);
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

  /** Sends an event to each stream that is not full, and sometimes ends or disturbs one. */
  step(): void {
    for (const served of this.served.values()) {
      if (served.over) continue;
      served.live.settle();
      if (served.stream.full) {
        this.short++;
        // If all streams are full, none gets a row.
        if (this.#draw() % 500 === 0) this.#disturb();
      } else {
        // A receiver is called for two tokens of one step, so this stream can disturb the step.
        const disturbs = this.#draw() % 500 === 0;
        const id = served.sent % TEXTS;
        if (disturbs) served.disturb = () => this.#disturb();
        this.#outbox.row(
          served.live,
          disturbs ? [id, (id + 1) % TEXTS] : served.client.paused && id % 4 === 0 ? [LONG] : [id],
        );
        this.events++;
      }
    }
    this.#outbox.deliver();
    for (const [id, served] of this.served) {
      if (!served.over) continue;
      this.direct += served.direct;
      this.served.delete(id);
    }
    const live = this.clients.length - this.#gone;
    for (let i = live; i < LIVE; i++) this.open();
  }

  get #gone(): number {
    return this.clients.reduce((count, { closed, ended }) => count + (closed || ended ? 1 : 0), 0);
  }

  #disturb(): void {
    const all = [...this.served.values()].filter(({ over }) => !over);
    const served = all[this.#draw() % Math.max(1, all.length)];
    if (served === undefined) return;
    const { client, stream } = served;
    const action = this.#draw() % 7;
    if (action === 0) client.socket?.terminate();
    else if (action === 1) client.socket?.end();
    else if (action === 2) this.open();
    else if (action === 3) this.#pause(client);
    else if (action === 4) this.#resume(all);
    else if (action === 5) this.#end(served);
    else {
      served.leave();
      stream.reset();
    }
  }

  /** Resumes rarely, so that sockets fill. */
  #resume(all: readonly ServedStream[]): void {
    if (this.#draw() % 4 > 0) return;
    for (const { client } of all) {
      client.paused = false;
      client.socket?.resume();
    }
  }

  #pause(client: Client): void {
    client.paused = true;
    client.socket?.pause();
  }

  #end(served: ServedStream): void {
    served.leave();
    this.ended.push(served);
    served.stream.end();
  }

  async close(): Promise<void> {
    for (const { socket } of this.clients) socket?.resume();
    await eventually(() => {
      // Streams whose request arrives only now are ended, too.
      for (const served of this.served.values()) if (!served.over) this.#end(served);
      return [...this.served.values()].every(({ client }) => client.ended || client.closed);
    });
    await this.#server.stop(true);
  }
}

const native = await nativeLanes();

test.skipIf(process.platform !== "linux")(
  "connections that open, close, stall and reset in the middle of steps get no byte of another stream",
  async () => {
    if (typeof native !== "function") throw new Error(native.refused);
    const crowd = new Crowd(new Lanes(native, new TokenTexts()));
    while (crowd.events < EVENTS) {
      crowd.step();
      await new Promise(setImmediate);
    }
    await crowd.close();
    expect(crowd.clients.flatMap(({ id, wrong }) => (wrong === null ? [] : [`${id}: ${wrong}`]))).toEqual([]);
    // Clients that saw the end got everything.
    const whole = crowd.ended.filter(({ client }) => client.ended);
    expect(whole.map(({ client }) => client.seq)).toEqual(whole.map(({ sent }) => sent));
    expect(whole.length).toBeGreaterThan(LIVE / 2);
    expect(crowd.opened).toBeGreaterThan(2 * LIVE);
    expect(crowd.short).toBeGreaterThan(0);
    expect(crowd.direct / crowd.events).toBeGreaterThan(0.5);
    figure("events", crowd.events);
    figure("by the native call", crowd.direct);
    figure("connections", crowd.opened);
    figure("withheld from full streams", crowd.short);
  },
);

/** Requests by path: streams of every kind, plain ones and those whose receivers get each token. */
const STREAMS: readonly (readonly [string, object])[] = [
  ["chat/completions", { messages: [{ role: "user", content: "a" }], max_tokens: 300, ignore_eos: true }],
  ["chat/completions", { messages: [{ role: "user", content: "b" }], n: 3, stream_options: { include_usage: true } }],
  ["chat/completions", { messages: [{ role: "user", content: "c" }], logprobs: true, top_logprobs: 2, max_tokens: 40 }],
  ["chat/completions", { messages: [{ role: "user", content: "d" }], skip_special_tokens: false, max_tokens: 80 }],
  ["completions", { prompt: ["e", "f"], max_tokens: 120, stop: ["e"] }],
  ["completions", { prompt: "g", max_tokens: 200, temperature: 2, stream_options: { continuous_usage_stats: true } }],
  ["responses", { input: "h", max_output_tokens: 120 }],
  ["messages", { messages: [{ role: "user", content: "i" }], max_tokens: 120 }],
];

test("each kind of stream has the same bytes in both modes", async () => {
  const all = await Promise.all(
    ["single", "auto"].map(async (way) => {
      const server = await serve(["--stream-writes", way, "--timing", "none", "--seed", "7"]);
      try {
        const texts: string[] = [];
        for (const [path, body] of [...STREAMS, ...STREAMS]) {
          const answer = await fetch(`${server.url}/v1/${path}`, {
            method: "POST",
            headers: { "content-type": "application/json", "x-request-id": `request-${texts.length}` },
            body: JSON.stringify({ ...body, model: MODEL, stream: true, seed: 5 }),
          });
          const text = await answer.text();
          expect([path, answer.status, answer.status === 200 ? "" : text]).toEqual([path, 200, ""]);
          texts.push(text.replaceAll(/"created(_at)?":\d+/g, ""));
        }
        return texts;
      } finally {
        await server.stop();
      }
    }),
  );
  expect(all[1]).toEqual(all[0]!);
  expect(all[0]!.join("").length).toBeGreaterThan(200_000);
});

test.skipIf(process.platform !== "linux")(
  "the server prints how events are sent, and refuses impossible modes",
  async () => {
    const server = await serve(["--stream-writes", "batched", "--timing", "none"]);
    try {
      await eventually(() => server.output().includes("  try  "));
      expect(server.output()).toContain("\n  writes      one native call for all plain tokens of a step\n");
      const page = await (await fetch(`${server.url}/metrics/understudy`)).text();
      expect(page).toContain('understudy_stream_writes_info{mode="batched"} 1');
    } finally {
      await server.stop();
    }
    expect(serve(["--stream-writes", "batched", "--self-signed-certs"])).rejects.toThrow(
      "understudy serve: --stream-writes batched: not possible here (the connections use TLS); auto uses it where possible",
    );
  },
);
