/**
 * Which streams of events does a reader meet? fast-check arbitraries of an SSE body's bytes, cut anywhere, and of the events
 * that the WHATWG's text ("Interpreting an event stream", HTML 9.2.6) gives for them. They shrink to the shortest stream
 * and the fewest cuts.
 */
import fc from "fast-check";

/** An event as a reader gets it. */
export interface SseEvent {
  /** "message" where the stream does not say. */
  readonly event: string;
  /** The values of its `data` lines, joined by LF. */
  readonly data: string;
  /** The last id that the stream gave; "" before. */
  readonly lastEventId: string;
}

/** A body, how it comes, and what is in it. */
export interface SseStream {
  /** The whole body, UTF-8. */
  readonly bytes: Uint8Array;
  /** The body as it comes: none is empty. */
  readonly chunks: readonly Uint8Array[];
  /** What a reader must find. */
  readonly events: readonly SseEvent[];
}

/** How large streams may become. */
export interface SseStreamOptions {
  /** Default 4. */
  readonly maxEvents?: number;
  /** Cuts in each line; default 2. */
  readonly maxCuts?: number;
  /** Whether the last event may lack its empty line, and so does not count; default true. */
  readonly unfinished?: boolean;
}

const ENDINGS = ["\n", "\r\n", "\r"] as const;
const FIELDS = ["data", "", "event", "id", "retry", "other"] as const;

interface Line {
  /** "": a comment. */
  readonly field: (typeof FIELDS)[number];
  readonly value: string;
  /** A blank behind the colon, which is not of the value. */
  readonly blank: boolean;
  readonly ending: (typeof ENDINGS)[number];
  /** So many bytes before its end, so that a cut stays in its place where what is in front of it shrinks. */
  readonly cuts: readonly number[];
}

interface Block {
  readonly lines: readonly Line[];
  /** The empty line's, and its cuts. */
  readonly ending: (typeof ENDINGS)[number];
  readonly cuts: readonly number[];
}

/** More than a line has. */
const LINE_BYTES = 32;

/** Characters of 1 to 4 bytes, and those that readers stumble over; no line ends, and no NUL, with which an id does not count. */
const text = fc
  .array(fc.constantFrom("a", ":", " ", "{", "é", "€", "😀", "\u2028", "\ufeff"), { maxLength: 5 })
  .map((all) => all.join(""));
const ending = fc.constantFrom(...ENDINGS);

/** Bodies of up to `maxEvents` blocks of lines, some without data, which are no events. */
export function sseStreams(options: SseStreamOptions = {}): fc.Arbitrary<SseStream> {
  const { maxEvents = 4, maxCuts = 6, unfinished = true } = options;
  const cuts = fc.array(fc.nat({ max: LINE_BYTES }), { maxLength: maxCuts });
  const line = fc.record<Line>({ field: fc.constantFrom(...FIELDS), value: text, blank: fc.boolean(), ending, cuts });
  const block = fc.record<Block>({ lines: fc.array(line, { minLength: 1, maxLength: 4 }), ending, cuts });
  const open = unfinished ? fc.boolean() : fc.constant(false);
  return fc
    .record({ blocks: fc.array(block, { maxLength: maxEvents }), bom: fc.boolean(), open })
    .map(({ blocks, bom, open }) => {
      const { bytes, cuts } = written(blocks, bom, open);
      return { bytes, chunks: cutAt(bytes, cuts), events: eventsOf(open ? blocks.slice(0, -1) : blocks) };
    });
}

function written(blocks: readonly Block[], bom: boolean, open: boolean): { bytes: Uint8Array; cuts: number[] } {
  const encoder = new TextEncoder();
  const [parts, places]: [Uint8Array[], number[]] = [[], []];
  let [length, last] = [0, ""];
  const write = (text: string, cuts: readonly number[]) => {
    const part = encoder.encode(text);
    parts.push(part);
    length += part.length;
    last = text.at(-1) ?? last;
    places.push(...cuts.filter((back) => back < part.length).map((back) => length - back));
  };
  if (bom) write("\ufeff", []);
  for (const [at, { lines, ending, cuts }] of blocks.entries()) {
    for (const { field, value, blank, ending, cuts } of lines) {
      const space = blank || value.startsWith(" ") ? " " : "";
      write(`${field}:${space}${field === "retry" ? "5" : value}${ending}`, cuts);
    }
    // Behind a CR an LF would be of the same line end.
    if (!(open && at === blocks.length - 1)) write(ending === "\n" && last === "\r" ? "\r" : ending, cuts);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return { bytes, cuts: places };
}

function eventsOf(blocks: readonly Block[]): SseEvent[] {
  let lastEventId = "";
  return blocks.flatMap(({ lines }) => {
    const of = (field: Line["field"]) => lines.filter((one) => one.field === field).map(({ value }) => value);
    lastEventId = of("id").at(-1) ?? lastEventId;
    const data = of("data");
    return data.length === 0 ? [] : [{ event: of("event").at(-1) || "message", data: data.join("\n"), lastEventId }];
  });
}

function cutAt(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const places = [...new Set(cuts.filter((at) => at > 0 && at < bytes.length))].sort((a, b) => a - b);
  return [0, ...places]
    .map((from, i) => bytes.subarray(from, places[i] ?? bytes.length))
    .filter(({ length }) => length > 0);
}
