/** Fourth stage: changes HTTP heads and Content-Length, and divides the body into chunks. */
import type { FaultRun } from "../plan/fault-run.ts";
import type { AnswerHead, EventCounts, Part, PartReceiver } from "../plan/types.ts";
import { fieldOf, framingOf, headBytes, withField } from "./heads.ts";

/** Maximum bytes of a stream that are kept to send the stream with a Content-Length. A longer stream is sent in chunks. */
const KEPT_MOST = 8 * 2 ** 20;
const TYPES: Readonly<Record<string, string | null>> = {
  plain: "text/plain; charset=utf-8",
  json: "application/json",
  octets: "application/octet-stream",
  none: null,
};
const LONG = 65_536;
const TEXT = (text: string) => Buffer.from(text, "latin1");
const LINE = TEXT("\r\n");
const ODD_SIZE = TEXT("xyz\r\n");
const EXTENSION = ';name="a value"\r\n';
/** Chunk size lines for sizes below this number of bytes are cached, because most chunks are short. */
const SIZED = 4096;
const sizeLines: Uint8Array[] = [];
/** HTML error page of a proxy, which a fault writes into a body that has already started. */
export const BAD_GATEWAY =
  "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1></body>\r\n</html>\r\n";

export class HttpStage implements PartReceiver {
  readonly #named: ReadonlyMap<string, FaultRun>;
  #streams = false;
  #head: AnswerHead | null = null;
  #framing: "chunked" | "length" | "none" = "chunked";
  #kept: Part[] = [];
  #bytes = 0;
  #over = false;
  #lastEvent = 0;
  /** True if the bytes written so far make the connection unusable for another request. */
  closes = false;

  constructor(
    runs: readonly FaultRun[],
    private readonly down: PartReceiver,
    private readonly counts: EventCounts,
    private readonly room: (bytes: number) => boolean,
    /** True for HTTP/2: frames replace chunk lines, and heads have no fields about the connection. */
    private readonly http2: boolean,
  ) {
    this.#named = new Map(runs.map((run) => [run.id, run]));
  }

  head(original: AnswerHead): void {
    const head = this.#fields(this.http2 ? { ...original, version: "2" } : original);
    const [h3, h4] = ["H3", "H4"].map((id) => this.#possible(id));
    const framed = framingOf(head);
    this.#head = head;
    this.#framing = this.http2 && framed === "none" ? "chunked" : framed;
    this.#streams = this.#framing === "chunked";
    const streams = this.#streams;
    if (h4?.word() === "close") {
      this.#framing = "none";
      this.closes = true;
      h4.fired++;
      this.#head = withField(bare({ ...head, version: "1.0" }), "connection", "close");
    } else if (streams && h3?.word() === "both") {
      this.#head = withField(head, "content-length", `${h3.number("bytes")}`);
      this.closes = true;
      h3.fired++;
    } else if (streams && (h3 ?? h4)) {
      (h3 ?? h4)!.fired++;
      this.#framing = "length";
    }
    this.#interim();
    if (this.#framing !== "length") this.#sendHead(this.#head);
  }

  /**
   * Returns the planned fault with this id. Over HTTP/2 excludes the variants `both` (two lengths) and `close` (no length),
   * which HTTP/2 cannot have.
   */
  #possible(id: string): FaultRun | undefined {
    const run = this.#named.get(id);
    return this.http2 && ["both", "close"].includes(run?.word() ?? "") ? undefined : run;
  }

  part(part: Part): void {
    this.#lastEvent = Math.max(0, part.event);
    if (this.#over) {
      this.counts.cut += part.completeEvents;
      return;
    }
    if (this.#framing === "none") this.down.part(part);
    else if (this.#framing === "length") this.#keep(part);
    else if (this.#injects(part)) this.counts.cut += part.completeEvents;
    else this.#chunk(part);
  }

  /** Returns the index of the first event, from `event` on, that a fault prevents from being sent as a plain chunk. */
  next(event: number): number {
    if (this.#over || this.#framing !== "chunked" || this.#named.has("H7")) return event;
    const [h1, h2, h8] = [this.#named.get("H1"), this.#named.get("H2"), this.#named.get("H8")];
    if (h2?.word() === "extension") return event;
    const sized = h1 === undefined || h1.word() === "garbage" ? Number.POSITIVE_INFINITY : h1.nextDue(event);
    return h8?.word() === "inject" ? Math.min(sized, h8.nextDue(event)) : sized;
  }

  /** Counts an event that is sent as a plain chunk. */
  skipped(event: number): void {
    this.#lastEvent = event;
  }

  wait(us: number): void {
    this.down.wait(us);
  }

  finish(): void {
    if (this.#framing === "length") this.#length();
    else if (this.#framing === "chunked") this.#lastChunk();
    this.down.finish();
  }

  /** Returns the header fields of a head after the faults have changed them. */
  #fields(original: AnswerHead): AnswerHead {
    let head = original;
    const [h5, h10, t5] = [this.#named.get("H5"), this.#named.get("H10"), this.#named.get("T5")];
    if (h5 && h5.word() !== "swap") {
      head = withField(head, "content-type", TYPES[h5.word()]!);
      h5.fired++;
    }
    if (h10) {
      h10.fired++;
      const how = h10.word();
      const many = Array.from({ length: h10.number("fields") }, (_, i): [string, string] => [`x-flood-${i}`, `${i}`]);
      const field: [string, string] = how === "long" ? ["x-long", "x".repeat(LONG)] : ["x-bytes", "caf\xc3\xa9 \xff"];
      head = { ...head, fields: [...head.fields, ...(how === "many" ? many : [field])] };
    }
    const date = fieldOf(head, "date");
    if (t5?.word() === "clock" && date !== null) {
      head = withField(head, "date", new Date(Date.parse(date) - 3600e3).toUTCString());
      t5.fired++;
    }
    const trails = framingOf(head) === "chunked" && this.#named.get("H2")?.word() !== "extension";
    if (trails && this.#named.has("H2")) head = withField(head, "trailer", "x-checksum");
    return head;
  }

  #interim(): void {
    const h9 = this.#named.get("H9");
    const how = h9?.word();
    if (!h9 || (how !== "100" && how !== "103")) return;
    h9.fired++;
    const start = how === "100" ? "100 Continue" : "103 Early Hints\r\nlink: </v1/models>; rel=preload";
    const text = `HTTP/${this.http2 ? "2" : "1.1"} ${start}\r\n\r\n`;
    this.down.part(framing(TEXT(text), -1, true, false));
    this.down.wait(h9.number("before"));
  }

  #sendHead(head: AnswerHead): void {
    this.down.part({ bytes: headBytes(head), event: -1, from: 0, completeEvents: 0, flush: true, done: false });
  }

  #keep(part: Part): void {
    this.#kept.push(part);
    this.#bytes += part.bytes.length;
    if (this.#bytes <= KEPT_MOST || !this.#streams) return;
    for (const id of ["H3", "H4"]) if (this.#named.has(id)) this.#named.get(id)!.fired = 0;
    this.#framing = "chunked";
    this.#sendHead(this.#head!);
    for (const part of this.#kept.splice(0)) this.#chunk(part);
  }

  #length(): void {
    const h3 = this.#named.get("H3");
    const wrong = h3 !== undefined && h3.word() !== "both";
    const more = wrong ? h3.number("bytes") * (h3.word() === "long" ? 1 : -1) : 0;
    if (wrong) {
      this.closes = !this.http2;
      h3.fired = 1;
    }
    const length = Math.max(0, this.#bytes + more);
    this.#sendHead(withField(withField(this.#head!, "transfer-encoding", null), "content-length", `${length}`));
    const last = this.#kept.length - 1;
    for (const [at, part] of this.#kept.entries()) this.down.part({ ...part, flush: at === last });
  }

  #chunk(part: Part): void {
    const h7 = this.#named.get("H7");
    if (h7) {
      this.#kept.push(part);
      this.#bytes += part.bytes.length;
      while (this.#bytes >= h7.number("bytes")) this.#rechunk(h7, h7.number("bytes"));
      return;
    }
    this.#framed([part], part.bytes.length, this.#due("H1", part), this.#due("H2", part));
  }

  /** Sends the next `bytes` bytes that the fault has kept as one chunk. */
  #rechunk(h7: FaultRun, bytes: number): void {
    h7.fired++;
    const parts: Part[] = [];
    let left = bytes;
    while (left > 0) {
      const first = this.#kept.shift()!;
      if (first.bytes.length <= left) parts.push(first);
      else {
        parts.push({ ...first, bytes: first.bytes.subarray(0, left), completeEvents: 0 });
        this.#kept.unshift({ ...first, bytes: first.bytes.subarray(left), from: first.from + left });
      }
      left -= Math.min(left, first.bytes.length);
    }
    this.#bytes -= bytes;
    if (h7.number("for") > 0) this.down.wait(h7.number("for"));
    this.#framed(parts, bytes, null, null);
  }

  #framed(parts: readonly Part[], bytes: number, h1: FaultRun | null, h2: FaultRun | null): void {
    if (bytes === 0) return;
    const { event, done } = parts[0]!;
    if (this.http2) {
      for (const [at, part] of parts.entries()) this.down.part({ ...part, flush: at === parts.length - 1 });
      return;
    }
    const how = h1?.word();
    const extended = h2?.word() === "extension";
    if (how === "size" || how === "crlf") this.closes = true;
    const line = how === "size" ? ODD_SIZE : extended ? TEXT(`${bytes.toString(16)}${EXTENSION}`) : sizeLine(bytes);
    if (how === "split") this.down.part(framing(line.subarray(0, 1), event, true, done));
    this.down.part(framing(how === "split" ? line.subarray(1) : line, event, false, done));
    for (const part of parts)
      this.down.part(part.flush === (how === "crlf") ? part : { ...part, flush: how === "crlf" });
    if (how !== "crlf") this.down.part(framing(LINE, event, true, done));
  }

  #injects(part: Part): boolean {
    const h8 = this.#named.get("H8");
    if (h8?.word() !== "inject" || !h8.due(part.event, part.done) || !this.room(BAD_GATEWAY.length)) return false;
    h8.fired++;
    this.#over = true;
    const page = { ...part, bytes: TEXT(BAD_GATEWAY), completeEvents: 0, from: 0 };
    this.#framed([page], page.bytes.length, null, null);
    return true;
  }

  #lastChunk(): void {
    const [h1, h2, h7] = [this.#named.get("H1"), this.#named.get("H2"), this.#named.get("H7")];
    if (h7 && this.#bytes > 0) this.#rechunk(h7, this.#bytes);
    // The body stays without an end: the fault E3 orders this, and HTTP/2 has no last chunk.
    if (this.#named.has("E3") || this.http2) return;
    const trailers = h2 !== undefined && h2.word() !== "extension";
    const cut = h2?.word() === "cut";
    if (trailers) h2.fired++;
    const end = trailers ? `0\r\nx-checksum: 0123456789abcdef\r\n${cut ? "x-more: a" : "\r\n"}` : "0\r\n\r\n";
    const garbage = h1?.word() === "garbage";
    if (garbage) h1!.fired++;
    if (cut || garbage) this.closes = true;
    this.down.part(
      framing(TEXT(garbage ? `${end}GARBAGE after the last chunk\r\n` : end), this.#lastEvent, true, false),
    );
  }

  /** Returns the planned fault with this id if it acts on this part, else null. */
  #due(id: string, part: Part): FaultRun | null {
    const run = this.#named.get(id);
    if (run === undefined || run.word() === "garbage") return null;
    if (id === "H2" ? run.word() !== "extension" : !run.due(part.event, part.done)) return null;
    run.fired++;
    return run;
  }
}

function sizeLine(bytes: number): Uint8Array {
  const known = sizeLines[bytes];
  if (known !== undefined) return known;
  const line = TEXT(`${bytes.toString(16)}\r\n`);
  if (bytes < SIZED) sizeLines[bytes] = line;
  return line;
}

const bare = (head: AnswerHead) => withField(withField(head, "transfer-encoding", null), "content-length", null);

/** Makes a part of an answer that has only HTTP framing, such as a chunk's length. `done`: true for the chunk of the last event. */
const framing = (bytes: Uint8Array, event: number, flush: boolean, done: boolean): Part => ({
  bytes,
  event,
  from: -1,
  completeEvents: 0,
  flush,
  done,
});
