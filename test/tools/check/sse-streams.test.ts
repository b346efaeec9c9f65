/** Tests that the arbitraries of event streams make broken readers fail, and never a correct one. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { type SseEvent, type SseStream, sseStreams } from "../../../src/tools/check/sse-streams.ts";

type Reader = (chunks: readonly Uint8Array[]) => SseEvent[];

/** A reader that follows the HTML standard, character by character. */
function fields(lines: readonly string[]): SseEvent[] {
  const events: SseEvent[] = [];
  let [data, event, lastEventId] = [[] as string[], "", ""];
  for (const line of lines) {
    if (line === "") {
      if (data.length > 0) events.push({ event: event || "message", data: data.join("\n"), lastEventId });
      [data, event] = [[], ""];
      continue;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    if (name === "event") event = value;
    if (name === "id") lastEventId = value;
  }
  return events;
}

const decoded = (chunks: readonly Uint8Array[]) => {
  const decoder = new TextDecoder();
  return chunks.map((chunk) => decoder.decode(chunk, { stream: true }));
};
/** The text after the last line end is not a line yet. */
const complete = (text: string, end: RegExp) => fields(text.split(end).slice(0, -1));

const RIGHT: Readonly<Record<string, Reader>> = {
  "of the whole text": (chunks) => complete(decoded(chunks).join(""), /\r\n|\r|\n/),
  "of the bytes": (chunks) => complete(new TextDecoder().decode(Buffer.concat(chunks)), /\r\n|[\r\n]/),
};

const BROKEN: Readonly<Record<string, Reader>> = {
  "decodes each chunk by itself": (chunks) =>
    complete(
      chunks
        .map((chunk) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(chunk))
        .join("")
        .replace(/^\ufeff/, ""),
      /\r\n|\r|\n/,
    ),
  "takes the halves of a CRLF for two line ends": (chunks) => {
    const lines = decoded(chunks).map((text) => text.replace(/\r\n|\r|\n/g, "\n"));
    return complete(lines.join(""), /\n/);
  },
  "wants each line in one chunk": (chunks) =>
    fields(decoded(chunks).flatMap((text) => text.split(/\r\n|\r|\n/).slice(0, -1))),
};

/** Matches the bytes within which the cut must be, for the broken reader to fail. */
const CULPRITS: Readonly<Record<string, RegExp>> = {
  "decodes each chunk by itself": /[\x80-\xff]+/g,
  "takes the halves of a CRLF for two line ends": /\r\n/g,
  "wants each line in one chunk": /[^\r\n]+/g,
};

const property = (reader: Reader) =>
  fc.property(sseStreams(), ({ chunks, events }) => Bun.deepEquals(reader(chunks), [...events]));

test.each(Object.entries(RIGHT))("a correct reader always passes: %s", (_, reader) => {
  fc.assert(property(reader), { numRuns: 3000, seed: 1 });
});

test.each(Object.entries(BROKEN))("a reader that %s fails, with a short stream and one cut", (name, reader) => {
  const { failed, counterexample } = fc.check(property(reader), { numRuns: 3000, seed: 1 });
  expect(failed).toBe(true);
  const { chunks, bytes } = counterexample![0] as SseStream;
  expect(chunks).toHaveLength(2);
  expect(bytes.length).toBeLessThanOrEqual(16);
  const cut = chunks[0]!.length;
  const around = [...Buffer.from(bytes).toString("latin1").matchAll(CULPRITS[name]!)].find(
    ({ index, 0: { length } }) => index <= cut && cut <= index + length,
  );
  expect(around![0].length).toBeLessThanOrEqual(5);
});

test("streams have cuts, CRs, byte order marks, several lines and split characters", () => {
  const seen = { cuts: 0, cr: 0, bom: 0, several: 0, split: 0 };
  fc.assert(
    fc.property(sseStreams(), ({ bytes, chunks, events }) => {
      expect(Buffer.concat([...chunks]).equals(Buffer.from(bytes))).toBe(true);
      const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
      seen.cuts += Number(chunks.length > 1);
      seen.cr += Number(/\r[^\n]/.test(text));
      seen.bom += Number(text.startsWith("\ufeff"));
      seen.several += Number(events.some(({ data }) => data.includes("\n")));
      seen.split += Number(chunks.slice(1).some(([first]) => (first! & 0xc0) === 0x80));
    }),
    { numRuns: 500, seed: 1 },
  );
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(20);
});
