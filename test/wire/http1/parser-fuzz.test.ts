/** Fuzzes the HTTP/1 parser. Each input must end, with CPU time and memory in proportion to its bytes. */
import { setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { FeedResult, Parser } from "../../../src/wire/http1/parser.ts";
import { fuzz, mutated } from "../../fuzz.ts";

// A collection of the heap takes long in a process that other tests share.
setDefaultTimeout(60_000);

const HEAD_BYTES = 4 * 2 ** 20;

/**
 * Returns a reader that feeds the parser parts of `partBytes` until the end or a refusal. It keeps heads and body parts in
 * memory, as a server does until a request is answered.
 */
const reading = (partBytes: number) => () => {
  const kept: unknown[] = [];
  const parser = new Parser(
    {
      onHead: (head) => void kept.push(head),
      onBody: (part) => void kept.push(part),
      onComplete: () => kept.length % 100 === 0,
      onUpgrade: () => {},
    },
    HEAD_BYTES,
  );
  return (bytes: Buffer) => {
    for (let from = 0; from < bytes.length; from += partBytes) {
      let part = bytes.subarray(from, from + partBytes);
      let fed = parser.feed(part);
      for (; fed === FeedResult.Enough && parser.read < part.length; fed = parser.feed(part))
        part = part.subarray(parser.read);
      if (fed !== FeedResult.Fine && fed !== FeedResult.Enough) break;
    }
    parser.free();
    return [parser, kept];
  };
};

const token = fc.stringMatching(/^[A-Za-z0-9-]{1,12}$/);
const value = fc.stringMatching(/^[ -~]{0,40}$/);
const line = fc.oneof(
  fc.tuple(token, value).map(([name, text]) => `${name}: ${text}\r\n`),
  token.map((name) => `${name}:\r\n`),
  fc.constantFrom("a:\r\n", "Host: x\r\n", "Expect: 100-continue\r\n", "Connection: close\r\n", "Upgrade: h2c\r\n"),
);
const start = fc
  .tuple(fc.constantFrom("GET", "POST", "HEAD", "PRI", "DELETE"), fc.stringMatching(/^\/[a-z0-9/?=&%.]{0,30}$/))
  .map(([method, path]) => `${method} ${path} HTTP/1.1\r\n`);
const lines = fc.array(line, { maxLength: 5 });
const plain = fc.tuple(start, lines).map(([first, all]) => [first, ...all, "\r\n"]);
const counted = fc
  .tuple(start, lines, value)
  .map(([first, all, body]) => [first, ...all, `Content-Length: ${body.length}\r\n`, "\r\n", body]);
const chunk = fc
  .tuple(value.filter(Boolean), fc.constantFrom("", ";e=1", `;e="${"x".repeat(200)}"`))
  .map(([text, extension]) => `${text.length.toString(16)}${extension}\r\n${text}\r\n`);
const chunked = fc
  .tuple(start, lines, fc.array(fc.oneof(chunk, fc.constant("1\r\nx\r\n")), { maxLength: 5 }), lines)
  .map(([first, all, chunks, trailers]) => [
    ...[first, ...all, "Transfer-Encoding: chunked\r\n", "\r\n"],
    ...[...chunks, "0\r\n", ...trailers, "\r\n"],
  ]);
/** Whole requests as lists of lines and chunks, which the fuzzer repeats and moves. */
const requests = fc
  .array(fc.oneof(plain, counted, chunked), { minLength: 1, maxLength: 4 })
  .map((all) => all.flat().map((text) => Buffer.from(text, "latin1")));
const stream = fc.oneof(
  { weight: 4, arbitrary: mutated(requests) },
  fc.uint8Array({ maxLength: 600 }).map((all) => Buffer.from(all)),
);

/** Five times the cost of the most expensive inputs: 10,000 lines without values, and parts of seven bytes. */
const BOUNDS = { usPerByte: 0.3, usMore: 3000, memoryPerByte: 20, memoryMore: 4000 };

test("HTTP/1: any bytes end, with CPU time and memory in proportion to them", () => {
  fuzz(2000, stream, BOUNDS, reading(524_288));
});

test("HTTP/1: the same for bytes in parts of seven", () => {
  fuzz(600, stream, BOUNDS, reading(7));
});
