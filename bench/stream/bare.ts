/**
 * Runs a bare server for `--only fit`, which sends a recorded answer with Elysia or with Bun's sockets. It sends one event per
 * stream and turn, as the C server does, and `max_tokens` events per answer. Options: `--port`, `--kind elysia|listen`,
 * `--dump` (a recorded answer), `--beside` (number of units of an answer that belong to no token).
 */
import { Elysia } from "elysia";
import { number, text } from "../lib/bench.ts";
import { dumped, units as unitsOf } from "../lib/template.ts";

const port = number("--port", 0);
const beside = number("--beside", 2);
const CHAT = "/v1/chat/completions";
const HEAD_END = "\r\n\r\n";

const units = unitsOf(dumped(text("--dump", "")));
const first = units[0]!;
const last = units.at(-1)!;
const middle = units.slice(1, -1);

/** A stream that replays the recorded answer: units left, and index of the next unit. */
interface Replay {
  left: number;
  at: number;
  send(unit: Buffer): void;
  end(): void;
}

/** Streams that have events to send. */
let playing: Replay[] = [];

function play(tokens: number, send: (unit: Buffer) => void, end: () => void): void {
  if (playing.length === 0) setImmediate(step);
  playing.push({ left: tokens + beside, at: 0, send, end });
}

function step(): void {
  const now = playing;
  playing = [];
  for (const stream of now) {
    stream.left--;
    stream.send(stream.at === 0 ? first : stream.left === 0 ? last : middle[(stream.at - 1) % middle.length]!);
    stream.at++;
    if (stream.left === 0) stream.end();
    else playing.push(stream);
  }
  if (playing.length > 0) setImmediate(step);
}

/** Returns the events of a unit: its bytes without the head of the answer and without chunk framing. */
function eventsOf(unit: Buffer): Buffer {
  const parts: Buffer[] = [];
  let at = unit.subarray(0, 5).toString() === "HTTP/" ? unit.indexOf(HEAD_END) + HEAD_END.length : 0;
  while (at < unit.length) {
    const line = unit.indexOf("\r\n", at);
    const size = Number.parseInt(unit.toString("latin1", at, line), 16);
    parts.push(unit.subarray(line + 2, line + 2 + size));
    at = line + 2 + size + 2;
  }
  return Buffer.concat(parts);
}

function elysia(): void {
  const events = new Map(units.map((unit) => [unit, eventsOf(unit)]));
  const headers = { "content-type": "text/event-stream; charset=utf-8" };
  const streamed = (tokens: number) =>
    new ReadableStream({
      type: "direct",
      pull: (out: ReadableStreamDirectController) =>
        new Promise<void>((resolve) => {
          const send = (unit: Buffer) => {
            out.write(events.get(unit)!);
            out.flush();
          };
          play(tokens, send, () => {
            out.end();
            resolve();
          });
        }),
    } as unknown as Bun.DirectUnderlyingSource);
  new Elysia()
    .get("/health", () => "")
    .post(CHAT, ({ body }) => new Response(streamed((body as { max_tokens: number }).max_tokens), { headers }))
    .listen({ port, hostname: "127.0.0.1", idleTimeout: 0 });
}

const HEALTHY = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

function listen(): void {
  Bun.listen<{ received: string }>({
    hostname: "127.0.0.1",
    port,
    socket: {
      open(socket) {
        socket.data = { received: "" };
      },
      data(socket, bytes) {
        const text = socket.data.received + bytes.toString("latin1");
        socket.data.received = text;
        const bodyAt = text.indexOf(HEAD_END) + HEAD_END.length;
        if (bodyAt < HEAD_END.length) return;
        const length = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1] ?? 0);
        if (text.length < bodyAt + length) return;
        socket.data.received = "";
        if (!text.startsWith(`POST ${CHAT}`)) {
          socket.write(HEALTHY);
          return;
        }
        const { max_tokens } = JSON.parse(text.slice(bodyAt)) as { max_tokens: number };
        play(
          max_tokens,
          (unit) => socket.write(unit),
          () => {},
        );
      },
    },
  });
}

if (text("--kind", "") === "elysia") elysia();
else listen();
