/**
 * Generates the fuzzer's inputs. Input number `index` of a seed always has the same bytes. An input is a recorded request with
 * mutated JSON, framing, head and bytes, alone or with others on one connection. It is sent in one or more writes, by a client
 * that waits or disconnects.
 */
import { readdirSync, readFileSync } from "node:fs";
import { type Random, seeded } from "../../src/base/random.ts";
import { chatFields, completionFields } from "../../src/servers/vllm/openai/fields.ts";
import { HEADERS, METHODS, ORDERS, PATHS, VALUES } from "./strange.ts";

export interface Input {
  readonly bytes: Uint8Array;
  /** Offsets at which one write ends and the next begins. */
  readonly cuts: readonly number[];
  readonly leave: "wait" | "fin" | "half" | "rst";
  /** Number of requests that the input was made from. */
  readonly requests: number;
}

interface ValidRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string | null;
}

/** A request in the format of the recordings. */
interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string | null>>;
  readonly body?: unknown;
  readonly body_text?: string;
  readonly body_base64?: string;
}

const folder = new URL("../conformance/recorded/", import.meta.url);

/** Returns the requests of the recordings, in the order of their files. Requests answered with 200 appear twice. */
export function corpus(): ValidRequest[] {
  const requests = readdirSync(folder)
    .filter((file) => file.endsWith(".json"))
    .toSorted()
    .flatMap((file) => {
      const recorded = JSON.parse(readFileSync(new URL(file, folder), "utf8"));
      const exchanges: { request: object; response: { status: number } }[] = recorded.exchanges ?? [recorded];
      return exchanges.flatMap(({ request, response }) => (response?.status === 200 ? [request, request] : [request]));
    });
  return (requests as (RecordedRequest | undefined)[])
    .filter((request) => request !== undefined && request !== null)
    .map((request) => ({
      method: request.method,
      path: request.path,
      headers: Object.entries(request.headers ?? {}).filter((line): line is [string, string] => line[1] !== null),
      body: request.body_base64
        ? Buffer.from(request.body_base64, "base64").toString("latin1")
        : request.body_text !== undefined
          ? bytesOf(request.body_text)
          : request.body === undefined
            ? null
            : bytesOf(JSON.stringify(request.body)),
    }));
}

/** Encodes a text as UTF-8 with one character per byte, so that all parts are text until they are sent. */
const bytesOf = (text: string) => Buffer.from(text).toString("latin1");

class Draw {
  constructor(readonly random: Random) {}
  below(count: number): number {
    return Math.floor((this.random() / 2 ** 32) * count);
  }
  chance(percent: number): boolean {
    return this.below(100) < percent;
  }
  of<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }
}

function nested(draw: Draw): string {
  const depth = draw.of([5, 50, 500, 3000, 20_000]);
  return draw.chance(50)
    ? "[".repeat(depth) + "]".repeat(draw.chance(80) ? depth : depth - 1)
    : `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
}

/** Returns a body with some of its values replaced, at any depth. Returns the body unchanged if it is not a JSON object. */
function spoiledJson(body: string, path: string, draw: Draw): string {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(body, "latin1").toString());
  } catch {
    return body;
  }
  if (typeof value !== "object" || value === null) return body;
  const raw: string[] = [];
  const wild = () => {
    raw.push(draw.chance(3) ? nested(draw) : bytesOf(draw.of(VALUES)));
    return `@@${raw.length - 1}@@`;
  };
  const names = Object.keys(path.endsWith("chat/completions") ? chatFields : completionFields);
  for (let change = draw.of([0, 0, 0, 1, 2, 4]); change >= 0; change--) {
    const kind = draw.below(10);
    if (draw.chance(4)) {
      raw.push(draw.of(ORDERS));
      (value as Record<string, unknown>).understudy = `@@${raw.length - 1}@@`;
    } else if (kind < 5) (value as Record<string, unknown>)[draw.of(names)] = wild();
    else if (kind < 6) delete (value as Record<string, unknown>)[draw.of(Object.keys(value))];
    else replace(value, draw, wild);
  }
  const text = bytesOf(JSON.stringify(value)).replaceAll(/"@@(\d+)@@"/g, (_, at) => raw[Number(at)]!);
  // If a key appears twice, the last one counts in Python.
  return draw.chance(5) ? text.replace("{", `{"${draw.of(names)}":${bytesOf(draw.of(VALUES))},`) : text;
}

/** Replaces one value of an object or list, at any depth. */
function replace(value: object, draw: Draw, wild: () => string): void {
  const keys = Object.keys(value);
  if (keys.length === 0) return;
  const key = draw.of(keys);
  const inner = (value as Record<string, unknown>)[key];
  if (typeof inner === "object" && inner !== null && draw.chance(70)) replace(inner, draw, wild);
  else (value as Record<string, unknown>)[key] = wild();
}

function spoiledBytes(text: string, draw: Draw): string {
  let out = text;
  for (let change = draw.below(6); change >= 0; change--) {
    const at = draw.below(out.length + 1);
    const some = draw.of([1, 1, 2, 7, 40]);
    const rest = out.slice(at + some);
    const byte = String.fromCharCode(
      draw.chance(30) ? draw.of([0, 9, 10, 13, 32, 34, 58, 92, 127, 128, 192, 237, 255]) : draw.below(256),
    );
    const kind = draw.below(6);
    if (kind === 0) out = out.slice(0, at) + byte + out.slice(at + 1);
    else if (kind === 1) out = out.slice(0, at) + byte.repeat(some) + out.slice(at);
    else if (kind === 2) out = out.slice(0, at) + rest;
    else if (kind === 3) out = out.slice(0, at + some) + out.slice(at, at + some) + rest;
    else if (kind === 4)
      out =
        out.slice(0, at) +
        draw.of(["\r\n", "\n", "\r", "\0", "\u00ef\u00bb\u00bf", "0\r\n\r\n", "{}", '"', "\\"]) +
        out.slice(at);
    else if (draw.chance(30)) out = out.slice(0, at);
  }
  return out;
}

function chunked(body: string, draw: Draw): string {
  let out = "";
  for (let at = 0; at < body.length; ) {
    const size = 1 + draw.below(draw.of([1, 10, 1000, 10_000]));
    const piece = body.slice(at, at + size);
    at += size;
    const digits = piece.length.toString(16);
    const stated = draw.chance(97)
      ? digits
      : draw.of(["zz", "-1", "ffffffffffffffffff", `${digits}x`, "", `0${digits}`]);
    out += `${stated}${draw.chance(4) ? ";a=b" : ""}\r\n${piece}${draw.chance(98) ? "\r\n" : ""}`;
  }
  return out + draw.of(["0\r\n\r\n", "0\r\n\r\n", "0\r\n\r\n", "0\r\n\r\n", "0\r\nA: b\r\n\r\n", "0\r\n", ""]);
}

/** Returns the bytes of one request. `last`: usually asks the server to close the connection after it. */
function request(valid: ValidRequest, draw: Draw, last: boolean): string {
  const method = draw.chance(3) ? draw.of(METHODS) : valid.method;
  const path = draw.chance(5) ? draw.of(PATHS) : valid.path;
  let body = valid.body;
  if (body !== null && draw.chance(60)) body = spoiledJson(body, path, draw);
  if (body !== null && draw.chance(12)) body = spoiledBytes(body, draw);
  const lines: [string, string][] = [];
  if (!draw.chance(2)) lines.push(["Host", "x"]);
  if (body !== null && !draw.chance(4)) lines.push(["Content-Type", "application/json"]);
  for (const [name, value] of valid.headers) lines.push([name, value]);
  for (let more = draw.chance(15) ? draw.below(4) : 0; more > 0; more--) lines.push([...draw.of(HEADERS)]);
  if (draw.chance(1)) for (let i = draw.below(300); i > 0; i--) lines.push([`X${i}`, "1"]);
  if (last && !draw.chance(10)) lines.push(["Connection", "close"]);
  let payload = body ?? "";
  const framing = draw.below(100);
  if (framing < 12) {
    lines.push(["Transfer-Encoding", "chunked"]);
    payload = chunked(payload, draw);
    if (draw.chance(10)) lines.push(["Content-Length", String(payload.length)]);
  } else if (body !== null && framing < 94) lines.push(["Content-Length", String(payload.length)]);
  else if (framing < 97) {
    const wrong = [
      payload.length - 1,
      payload.length + 3,
      0,
      -1,
      2 ** 53,
      "1e3",
      "0x10",
      " 7",
      "99999999999999999999",
      "4,4",
      "",
    ];
    lines.push(["Content-Length", String(draw.of(wrong))]);
  }
  const version = draw.chance(97)
    ? "HTTP/1.1"
    : draw.of(["HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 ", ""]);
  const end = draw.chance(98) ? "\r\n" : draw.of(["\n", "\r", "\r\n "]);
  const head = `${method} ${path} ${version}${end}${lines.map(([name, value]) => `${name}: ${value}${end}`).join("")}${end}`;
  return (draw.chance(4) ? spoiledBytes(head, draw) : head) + payload;
}

/** Returns the input. Equal arguments give equal inputs. `plain`: a valid, whole request from a client that waits. */
export function inputOf(requests: readonly ValidRequest[], seed: number, index: number, plain = false): Input {
  const draw = new Draw(seeded(Math.imul(seed + 1, 0x9e3779b9) ^ Math.imul(index + 1, 0x85ebca6b)));
  if (plain) {
    const { method, path, headers, body } = draw.of(requests);
    const framing = body === null ? "" : `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
    const named = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const text = `${method} ${path} HTTP/1.1\r\nHost: x\r\n${framing}${named}Connection: close\r\n\r\n${body ?? ""}`;
    return { bytes: Buffer.from(text, "latin1"), cuts: [], leave: "wait", requests: 1 };
  }
  const count = draw.chance(88) ? 1 : 2 + draw.below(4);
  let text = "";
  for (let i = 1; i <= count; i++) text += request(draw.of(requests), draw, i === count);
  if (draw.chance(4)) text = spoiledBytes(text, draw);
  if (draw.chance(4)) text = text.slice(0, draw.below(text.length));
  const cuts = draw.chance(15)
    ? Array.from({ length: 1 + draw.below(4) }, () => draw.below(text.length)).toSorted((a, b) => a - b)
    : [];
  const leave = draw.chance(80) ? "wait" : draw.of(["fin", "half", "rst"] as const);
  return { bytes: Buffer.from(text, "latin1"), cuts, leave, requests: count };
}
