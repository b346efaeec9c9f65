/** Tests that the parser finds the same requests however their bytes are cut, and that no input breaks it. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { FeedResult, Parser, type ParserEvents } from "../../../src/wire/http1/parser.ts";
import { HeaderFields, KnownHeads } from "../../../src/wire/http1/request.ts";
import { times } from "../../size.ts";

const HEAD_BYTES = 2000;

interface ParserLog {
  readonly events: string[];
  readonly fed: FeedResult;
  /** Length of the longest head, in bytes. */
  readonly fieldBytes: number;
}

const DEAF: ParserEvents = { onHead() {}, onBody() {}, onComplete: () => false, onUpgrade() {} };

/**
 * Feeds the parts and returns what the parser reports; stops after a refusal. `enough`: called after each request, returns true
 * to stop there.
 */
function hear(parts: readonly Buffer[], headBytes = HEAD_BYTES, enough = () => false, asSent = false): ParserLog {
  const events: string[] = [];
  let fieldBytes = 0;
  let body = "";
  const parser = new Parser(
    {
      onHead: ({ method, target, version, fields, keepAlive }) => {
        const known = ["host", "x", "content-length", "transfer-encoding", "expect"].map((name) => fields.get(name));
        fieldBytes = Math.max(fieldBytes, target.length, ...known.map((value) => value?.length ?? 0));
        events.push(`head ${JSON.stringify([method, target, version, keepAlive, known])}`);
        body = "";
      },
      // Body parts are cut where the input was cut.
      onBody: (part) => {
        body += Buffer.from(part).toString("latin1");
      },
      onComplete: () => {
        events.push(`body ${body}`);
        return enough();
      },
      onUpgrade: () => events.push("upgrade"),
    },
    headBytes,
    asSent,
  );
  try {
    for (let part of parts) {
      let fed = parser.feed(part);
      for (; fed === FeedResult.Enough; fed = parser.feed(part)) part = part.subarray(parser.read);
      if (fed !== FeedResult.Fine) return { events, fed, fieldBytes };
    }
    return { events, fed: FeedResult.Fine, fieldBytes };
  } finally {
    parser.free();
  }
}

const token = fc.stringMatching(/^[A-Za-z0-9-]{1,12}$/);
const value = fc.stringMatching(/^[ -~]{0,40}$/);
const lines = fc
  .array(fc.tuple(token, value), { maxLength: 6 })
  .map((all) => all.map(([name, text]) => `X-${name}: ${text}\r\n`).join(""));
const path = fc.stringMatching(/^\/[a-z0-9/?=&%.]{0,30}$/);
const version = fc.constantFrom("HTTP/1.1", "HTTP/1.0");
const plain = fc
  .tuple(fc.constantFrom("GET", "HEAD", "OPTIONS", "DELETE"), path, version, lines)
  .map(([method, at, http, more]) => `${method} ${at} ${http}\r\nHost: x\r\n${more}\r\n`);
const counted = fc
  .tuple(path, value, lines)
  .map(([at, body, more]) => `POST ${at} HTTP/1.1\r\n${more}Content-Length: ${body.length}\r\n\r\n${body}`);
const chunked = fc.tuple(path, fc.array(value, { maxLength: 5 }), lines).map(([at, parts, more]) => {
  const chunks = parts.filter(Boolean).map((part) => `${part.length.toString(16)};e=1\r\n${part}\r\n`);
  return `POST ${at} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n${more}\r\n${chunks.join("")}0\r\nX-T: 1\r\n\r\n`;
});
const requests = fc.array(fc.oneof(plain, counted, chunked), { minLength: 1, maxLength: 4 });
/** Whole requests, some with a few changed bytes, and arbitrary bytes. */
const stream = fc.oneof(
  requests.map((all) => Buffer.from(all.join(""), "latin1")),
  fc.tuple(requests, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 })).map(([all, changes]) => {
    const bytes = Buffer.from(all.join(""), "latin1");
    for (const [at, byte] of changes) bytes[at % bytes.length] = byte;
    return bytes;
  }),
  fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
);
const cuts = fc.array(fc.nat(), { maxLength: 12 });

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [0, ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return at.slice(1).map((end, i) => bytes.subarray(at[i], end));
}

test("however the bytes are cut, they give the same requests", () => {
  fc.assert(
    fc.property(stream, cuts, (bytes, places) => {
      const whole = hear([bytes]);
      const parts = hear(cut(bytes, places));
      expect(parts.fed).toBe(whole.fed);
      expect(parts.events).toEqual(whole.events);
    }),
    { numRuns: times(2000) },
  );
});

test("byte by byte", () => {
  fc.assert(
    fc.property(stream, (bytes) => {
      const whole = hear([bytes]);
      const single = hear(Array.from(bytes, (_, i) => bytes.subarray(i, i + 1)));
      expect([single.fed, single.events]).toEqual([whole.fed, whole.events]);
    }),
    { numRuns: times(300) },
  );
});

test("stopping after any request gives the same requests afterwards", () => {
  fc.assert(
    fc.property(stream, cuts, fc.infiniteStream(fc.boolean()), (bytes, places, pauses) => {
      const enough = () => pauses.next().value as boolean;
      const whole = hear([bytes]);
      for (const parts of [[bytes], cut(bytes, places)]) {
        const paused = hear(parts, HEAD_BYTES, enough);
        expect([paused.fed, paused.events]).toEqual([whole.fed, whole.events]);
      }
    }),
    { numRuns: times(2000) },
  );
});

test("a head that came before gives the same events as the first time", () => {
  // Fed byte by byte, no head is recognised as known.
  const whole = fc.oneof(plain, counted, chunked, stream.map(String)).map((text) => Buffer.from(text, "latin1"));
  fc.assert(
    fc.property(fc.array(whole, { minLength: 1, maxLength: 4 }), cuts, (all, places) => {
      const bytes = Buffer.concat(all);
      const single = hear(Array.from(bytes, (_, i) => bytes.subarray(i, i + 1)));
      for (const parts of [all, all, [bytes], [bytes], cut(bytes, places), cut(bytes, places)]) {
        const again = hear(parts);
        expect([again.fed, again.events]).toEqual([single.fed, single.events]);
      }
    }),
    { numRuns: times(500) },
  );
});

test("a known head is still refused by a smaller limit", () => {
  const request = Buffer.from("POST /v1/completions HTTP/1.1\r\nHost: known-but-long\r\nContent-Length: 2\r\n\r\n{}");
  for (let i = 0; i < 3; i++) expect(hear([request, request]).events).toHaveLength(4);
  expect(hear([request], 30).fed).toBe(FeedResult.TooLarge);
});

test("bytes after a known head with an incomplete body belong to that body", () => {
  const [head, body] = ["POST /a HTTP/1.1\r\nHost: known\r\nContent-Length: 4\r\n\r\n", "body"];
  const once = hear([Buffer.from(head + body)]).events;
  expect(hear([Buffer.from(head + body), Buffer.from(`${head}bo`), Buffer.from("dy")]).events).toEqual([
    ...once,
    ...once,
  ]);
  expect(hear([Buffer.from(head + body), Buffer.from(head), Buffer.from(body)]).events).toEqual([...once, ...once]);
  expect(hear([Buffer.from(head + body + head + body)]).events).toEqual([...once, ...once]);
});

test("the last 256 heads are known", () => {
  const heads = new KnownHeads();
  const fields = new HeaderFields([], []);
  const head = { method: "GET", target: "/", version: "1.1", fields, keepAlive: true };
  for (let i = 0; i < 1000; i++) heads.add(`head ${i}`, { head, bytes: Buffer.of(), countedBytes: 9, bodyBytes: i });
  const known = Array.from({ length: 1000 }, (_, i) => i).filter((i) => heads.get(`head ${i}`)?.bodyBytes === i);
  expect(known).toEqual(Array.from({ length: 256 }, (_, i) => 744 + i));
});

test("bytes that look like a known request are none inside a body or after the last request", () => {
  const known = "POST /k HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
  hear([Buffer.from(known)]);
  const outer = Buffer.from(`POST /o HTTP/1.1\r\nContent-Length: ${known.length}\r\n\r\n`);
  expect(hear([outer, Buffer.from(known)]).events[1]).toBe(`body ${known}`);
  const last = Buffer.from("GET /l HTTP/1.1\r\nConnection: close\r\n\r\n");
  expect(hear([last, Buffer.from(known)]).events).toHaveLength(2);
});

test("consecutive requests are reported in order", () => {
  // A request of HTTP/1.0 ends the connection, so nothing is reported after it.
  const lasting = requests.map((all) => all.map((one) => one.replace("HTTP/1.0", "HTTP/1.1")));
  fc.assert(
    fc.property(lasting, cuts, (all, places) => {
      const { events, fed } = hear(cut(Buffer.from(all.join(""), "latin1"), places), 1e6);
      expect(fed).toBe(FeedResult.Fine);
      expect(events.filter((event) => event.startsWith("head "))).toHaveLength(all.length);
      expect(events.filter((event) => event.startsWith("body "))).toHaveLength(all.length);
      for (const [i, request] of all.entries()) expect(events[2 * i]).toContain(JSON.stringify(request.split(" ")[0]));
    }),
  );
});

test("no head exceeds the limit, whichever part of it is long", () => {
  const long = fc.constantFrom(
    (n: number) => `GET /${"a".repeat(n)} HTTP/1.1\r\n\r\n`,
    (n: number) => `GET / HTTP/1.1\r\nX: ${"a".repeat(n)}\r\n\r\n`,
    (n: number) => `GET / HTTP/1.1\r\n${"a".repeat(n)}: 1\r\n\r\n`,
    (n: number) => `GET / HTTP/1.1\r\n${"a:\r\n".repeat(n / 4)}\r\n`,
    (n: number) => `POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ${"a".repeat(n)}\r\n\r\n`,
  );
  fc.assert(
    fc.property(long, fc.integer({ min: HEAD_BYTES, max: 100_000 }), cuts, (make, bytes, places) => {
      const { fed, fieldBytes } = hear(cut(Buffer.from(make(bytes + 8)), places));
      expect(fed).toBe(FeedResult.TooLarge);
      expect(fieldBytes).toBeLessThan(HEAD_BYTES);
    }),
    { numRuns: times(100) },
  );
});

test("a URL of more than 65,535 bytes is refused, as by httptools", () => {
  const head = (bytes: number) => Buffer.from(`GET /?${"q".repeat(bytes - 2)} HTTP/1.1\r\nHost: x\r\n\r\n`);
  expect(hear([head(65_535)], 4e6).fed).toBe(FeedResult.Fine);
  for (const bytes of [65_536, 1_000_000]) expect(hear([head(bytes)], 4e6).fed).toBe(FeedResult.Wrong);
  // The part after # counts as well.
  expect(hear([Buffer.from(`GET /#${"f".repeat(65_534)} HTTP/1.1\r\n\r\n`)], 4e6).fed).toBe(FeedResult.Wrong);
});

test("more than 10,000 header lines are refused", () => {
  const head = (count: number) => Buffer.from(`GET / HTTP/1.1\r\n${"a:1\r\n".repeat(count)}\r\n`);
  expect(hear([head(10_000)], 1e6).fed).toBe(FeedResult.Fine);
  expect(hear([head(10_001)], 1e6).fed).toBe(FeedResult.TooLarge);
});

test("freed parsers leave their memory to the next", () => {
  const request = Buffer.from("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  // Each parser takes about a hundred bytes of WebAssembly memory, which has room for some thousands at once.
  for (let i = 0; i < 200_000; i++) {
    const parser = new Parser(DEAF, HEAD_BYTES);
    if (i % 1000 === 0) expect(parser.feed(request)).toBe(FeedResult.Fine);
    parser.free();
    parser.free();
  }
});

test("many parsers at once", () => {
  const heads: string[] = [];
  const parsers = Array.from(
    { length: 20_000 },
    () => new Parser({ ...DEAF, onHead: ({ target }) => heads.push(target) }, HEAD_BYTES),
  );
  for (const parser of parsers) parser.feed(Buffer.from("GET /a"));
  for (const parser of parsers) parser.feed(Buffer.from("b HTTP/1.1\r\n\r\n"));
  for (const parser of parsers) parser.free();
  expect(heads).toEqual(Array(20_000).fill("/ab"));
});

test("loading the parser takes less than 14 MB (9 measured), so its bytes are not named exports (20 measured)", () => {
  const program = `
    const before = process.memoryUsage.rss();
    await import(${JSON.stringify(new URL("../../../src/wire/http1/parser.ts", import.meta.url).pathname)});
    console.log(process.memoryUsage.rss() - before);
  `;
  const { stdout } = Bun.spawnSync([process.execPath, "-e", program]);
  const bytes = Number(stdout.toString());
  expect(bytes).toBeGreaterThan(0);
  expect(bytes).toBeLessThan(14e6);
});

test("for a proxy: targets stay as sent, and requests with Upgrade are read with their bodies, however the bytes are cut", () => {
  const upgrade = "connection: upgrade\r\nupgrade: h2c\r\n";
  const sent = [
    `GET * HTTP/1.1\r\n${upgrade}\r\n`,
    `POST http://h/p?q#f HTTP/1.1\r\n${upgrade}content-length: 4\r\n\r\nbody`,
    `POST /c HTTP/1.1\r\n${upgrade}transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n`,
    "GET /plain HTTP/1.1\r\n\r\n",
  ];
  const bytes = Buffer.from(sent.join("").repeat(40));
  const expected = ["*", "http://h/p?q#f", "/c", "/plain"];
  const cuts = fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(cuts, fc.boolean(), (sizes, enough) => {
      const parts: Buffer[] = [];
      for (let at = 0, cut = 0; at < bytes.length; at += parts.at(-1)!.length, cut++)
        parts.push(bytes.subarray(at, at + sizes[cut % sizes.length]!));
      const { events, fed } = hear(parts, HEAD_BYTES, () => enough, true);
      const targets = events.filter((one) => one.startsWith("head ")).map((one) => JSON.parse(one.slice(5))[1]);
      expect([fed, targets]).toEqual([FeedResult.Fine, Array(40).fill(expected).flat()]);
      expect(events.filter((one) => one.startsWith("body "))).toEqual(
        Array(40).fill(["body ", "body body", "body hi", "body "]).flat(),
      );
      expect(events).not.toContain("upgrade");
    }),
    { numRuns: times(200) },
  );
});

test("a parser that is fed within the callback of another throws an error, and both continue afterwards", () => {
  // Unknown heads, because llhttp does not read known ones.
  const request = (name: string) => Buffer.from(`GET /${name} HTTP/1.1\r\nHost: h\r\n\r\n`);
  const seen: string[] = [];
  const inner = new Parser({ ...DEAF, onHead: ({ target }) => seen.push(target) }, HEAD_BYTES);
  let nested: unknown = null;
  const events: ParserEvents = {
    ...DEAF,
    onHead: ({ target }) => {
      seen.push(target);
      try {
        if (nested === null) inner.feed(request("nested"));
      } catch (error) {
        nested = error;
      }
    },
  };
  const outer = new Parser(events, HEAD_BYTES);
  expect(outer.feed(request("nesting"))).toBe(FeedResult.Fine);
  expect(String(nested)).toContain("fed while llhttp reads the bytes of another");
  expect([outer.feed(request("nesting-2")), inner.feed(request("nested-2"))]).toEqual([
    FeedResult.Fine,
    FeedResult.Fine,
  ]);
  expect(seen).toEqual(["/nesting", "/nesting-2", "/nested-2"]);
  for (const parser of [outer, inner]) parser.free();
});
