/**
 * Records exchanges as fixtures (docs/how-to/fixtures.md), one file each: the request as the condition, the answer event by event
 * with its times. No header of a request is written; of an answer, those that recorded-headers.ts allows.
 */
import { PassingEvents } from "./events.ts";
import { firstValue, type HeaderLines } from "./fields.ts";
import { jsonIn } from "./question.ts";
import { RecordFolder } from "./record-folder.ts";
import { recordedHeaders } from "./recorded-headers.ts";
import { type ForwardedRequest, originForm } from "./upstream.ts";

/** Limits of a folder of fixtures (docs/how-to/fixtures.md). */
const FILE_BYTES = 1_048_576;
/** Fewest characters that JSON adds to an event's text in a record. */
const EVENT_CHARACTERS = 6;
const FOLDER_BYTES = 16 * 2 ** 20;
const FILES_MOST = 1000;
const TOO_LONG = `more than ${FILE_BYTES} bytes`;
/** Fields of a request body that a fixture compares with later requests. */
const ASKED = ["model", "messages", "prompt", "input", "system", "tools", "stream", "max_tokens", "seed"];

const pathOf = (target: string): string => originForm(target).split("?")[0]!;

/** An answer that is recorded while it is forwarded. */
export class RecordedAnswer {
  /** Events as time, in microseconds after the request, and text. An answer without events counts as one event. */
  readonly events: [us: number, text: string][] = [];
  /** Reason why the answer cannot be recorded; null if it can. */
  unfit: string | null = null;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Arrival of the request, in microseconds since 1970. */
  readonly arrivalUs: number;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  /** Splits the body into events; null: the answer is not an event stream. */
  readonly #passing: PassingEvents | null;
  /** Text of an answer without events. */
  #text = "";
  #characters = 0;

  constructor(status: number, fields: HeaderLines, arrivalUs: number) {
    this.status = status;
    this.headers = recordedHeaders(fields);
    this.arrivalUs = arrivalUs;
    this.#passing = /^text\/event-stream/i.test(firstValue(fields, "content-type") ?? "") ? new PassingEvents() : null;
    const coding = firstValue(fields, "content-encoding") ?? "identity";
    if (coding !== "identity") this.unfit = `its body is in the content coding ${coding}`;
  }

  /** Records bytes of the body. `us`: microseconds after the request. */
  part(us: number, bytes: Uint8Array): void {
    if (this.unfit !== null) return;
    const text = this.#decoded(bytes);
    if (this.#passing !== null) for (const event of this.#passing.push(bytes)) this.event(us, event);
    else if (this.#counts(text)) this.#text += text;
  }

  /** Records the end of the body. `us`: microseconds after the request. */
  end(us: number): void {
    this.#decoded(null);
    if (this.#passing === null) this.#add(us, this.#text);
    else {
      const rest = this.#passing.end();
      if (rest !== "") this.event(us, rest);
    }
  }

  event(us: number, text: string): void {
    if (this.#counts(text)) this.#add(us, text);
  }

  #add(us: number, text: string): void {
    if (this.unfit === null) this.events.push([us, text]);
  }

  /** Counts the size of a text. Returns false if the record would be too large. */
  #counts(text: string): boolean {
    this.#characters += text.length + EVENT_CHARACTERS;
    if (this.#characters > FILE_BYTES) this.#drop(TOO_LONG);
    return this.unfit === null;
  }

  #decoded(bytes: Uint8Array | null): string {
    try {
      return bytes === null ? this.#decoder.decode() : this.#decoder.decode(bytes, { stream: true });
    } catch {
      this.#drop("its body is not UTF-8");
      return "";
    }
  }

  #drop(why: string): void {
    this.unfit ??= why;
    this.events.length = 0;
    this.#text = "";
  }
}

export class Recorder {
  readonly #folder: RecordFolder;
  readonly #asked = new Map<string, number>();
  #bytes = 0;
  #full = false;

  /**
   * Creates the folder if it is missing. Throws the system's error if that fails, and a `UserError` if it has records, with
   * which the new ones would be mixed.
   */
  constructor(
    folder: string,
    private readonly say: (line: string) => void,
  ) {
    this.#folder = new RecordFolder(folder, say);
  }

  /** Writes the exchange. `broken`: true if the server closed early. Reports an exchange that cannot be written; never throws. */
  keep({ method, target, body }: ForwardedRequest, answer: RecordedAnswer, broken: boolean): void {
    const path = pathOf(target);
    if (method !== "POST" || this.#full) return;
    const { status, headers, events, arrivalUs, unfit } = answer;
    const json = jsonIn(body);
    const asked = Object.fromEntries(ASKED.flatMap((name) => (name in json ? [[name, { equals: json[name] }]] : [])));
    const recorded = { status, headers, broken, arrival_us: arrivalUs, events };
    const key = JSON.stringify([path, asked]);
    const nth = (this.#asked.get(key) ?? 0) + 1;
    const text = `${JSON.stringify({ match: { path, body: asked, nth }, answer: { recorded } })}\n`;
    const bytes = Buffer.byteLength(text);
    if (unfit !== null || bytes > FILE_BYTES) {
      this.say(`not recorded: ${path}, ${unfit ?? TOO_LONG}`);
      return;
    }
    this.#full = this.#folder.count === FILES_MOST || this.#bytes + bytes > FOLDER_BYTES;
    if (this.#full) {
      this.say(`nothing more is recorded: a folder of fixtures has ${FILES_MOST} files, ${FOLDER_BYTES} bytes at most`);
      return;
    }
    if (!this.#folder.write(text)) return;
    this.#asked.set(key, nth);
    this.#bytes += bytes;
  }

  /** Reports an exchange that the client ended early. It is not recorded, because the record would show a server that closed. */
  skip({ method, target }: ForwardedRequest): void {
    if (method === "POST")
      this.say(`not recorded: ${pathOf(target)}, the client left or a plan ended the answer early`);
  }

  /** Reports the exchanges that could not be written. Call it at the end. */
  close(): void {
    this.#folder.close();
  }
}
