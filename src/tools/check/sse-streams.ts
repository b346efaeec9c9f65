/**
 * Makes fast-check arbitraries of event streams: the bytes of an SSE body, cut anywhere into chunks, and the events of these
 * bytes. The HTML standard defines the events ("Interpreting an event stream", 9.2.6). The arbitraries shrink towards the shortest stream and the
 * fewest cuts.
 */
import fc from "fast-check";

/** An event as a correct reader reports it. */
export interface SseEvent {
  /** Event type. "message" if the stream does not name one. */
  readonly event: string;
  /** Values of the event's `data` lines, joined by LF. */
  readonly data: string;
  /** Last id that the stream gave. "" before the first id. */
  readonly lastEventId: string;
}

/** The bytes of a body, their chunks, and the events in them. */
export interface SseStream {
  /** The whole body in UTF-8. */
  readonly bytes: Uint8Array;
  /** The body as it arrives. No chunk is empty. */
  readonly chunks: readonly Uint8Array[];
  /** The events that a correct reader must report. */
  readonly events: readonly SseEvent[];
}

/** Bounds of the generated streams. */
export interface SseStreamOptions {
  /** Maximum number of events of a stream. Default 4. */
  readonly maxEvents?: number;
  /** Maximum number of cuts per line. Default 2. */
  readonly maxCuts?: number;
  /** True if the empty line after the last event may be missing. That event then does not count. Default true. */
  readonly unfinished?: boolean;
}

const ENDINGS = ["\n", "\r\n", "\r"] as const;
const FIELDS = ["data", "", "event", "id", "retry", "other"] as const;

interface Line {
  /** Field name. "" makes the line a comment. */
  readonly field: (typeof FIELDS)[number];
  readonly value: string;
  /** True if a blank follows the colon. The blank is not part of the value. */
  readonly blank: boolean;
  readonly ending: (typeof ENDINGS)[number];
  /**
   * Places where a chunk ends, in bytes before the end of the line. Counted from the end, so that a cut stays in place when
   * the text before it shrinks.
   */
  readonly cuts: readonly number[];
}

interface Block {
  readonly lines: readonly Line[];
  /** Line end of the empty line after the event, and the cuts in it. */
  readonly ending: (typeof ENDINGS)[number];
  readonly cuts: readonly number[];
}

/** More bytes than any generated line has. */
const LINE_BYTES = 32;

/**
 * Values of characters of 1 to 4 bytes, among them those that readers often get wrong. Line ends are left out, and so is NUL,
 * because an id with NUL is ignored.
 */
const text = fc
  .array(fc.constantFrom("a", ":", " ", "{", "é", "€", "😀", "\u2028", "\ufeff"), { maxLength: 5 })
  .map((all) => all.join(""));
const ending = fc.constantFrom(...ENDINGS);

/** Returns an arbitrary of bodies with up to `maxEvents` blocks of lines. Blocks without a `data` line are not events. */
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
    // An LF directly after a CR would belong to the same line end.
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
    const of = (field: Line["field"]) => lines.filter((line) => line.field === field).map(({ value }) => value);
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
