/**
 * Keeps exchanges as fixtures (docs/fixtures.md), one file each: the request as the condition, the answer event by event
 * with its times. No header of a request is written; of an answer, those that recorded-headers.ts allows.
 */
import { PassingEvents } from "./events.ts";
import { firstValue, type HeaderLines } from "./fields.ts";
import { jsonIn } from "./question.ts";
import { RecordFolder } from "./record-folder.ts";
import { recordedHeaders } from "./recorded-headers.ts";
import { originForm, type Passing } from "./upstream.ts";

/** Limits of a folder of fixtures (docs/fixtures.md). */
const FILE_BYTES = 1_048_576;
/** Characters around an event's text in a record, at least. */
const EVENT_CHARACTERS = 6;
const FOLDER_BYTES = 16 * 2 ** 20;
const FILES_MOST = 1000;
const TOO_LONG = `more than ${FILE_BYTES} bytes`;
/** Fields of a request body by which its answer is found again. */
const ASKED = ["model", "messages", "prompt", "input", "system", "tools", "stream", "max_tokens", "seed"];

const pathOf = (target: string): string => originForm(target).split("?")[0]!;

/** An answer, recorded while it passes. */
export class RecordedAnswer {
  /** Microseconds after the request, and text. An answer without events is one event. */
  readonly events: [us: number, text: string][] = [];
  /** Why the answer cannot be recorded; null if it can. */
  unfit: string | null = null;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** When the request came, microseconds since 1970. */
  readonly arrivalUs: number;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  /** null: the answer has no events. */
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

  /** Takes bytes of the body that came `us` microseconds after the request. */
  part(us: number, bytes: Uint8Array): void {
    if (this.unfit !== null) return;
    const text = this.#decoded(bytes);
    if (this.#passing !== null) for (const event of this.#passing.push(bytes)) this.event(us, event);
    else if (this.#counts(text)) this.#text += text;
  }

  /** Takes the body's end. */
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

  /** False: more than a record holds. */
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
  readonly #say: (line: string) => void;
  readonly #asked = new Map<string, number>();
  #bytes = 0;
  #full = false;

  /**
   * Makes the folder if it is missing. Throws the system's error if that fails, a `UserError` if the folder has records, with
   * which the new ones would be mixed.
   */
  constructor(folder: string, say: (line: string) => void) {
    this.#folder = new RecordFolder(folder, say);
    this.#say = say;
  }

  /** Writes the exchange. `broken`: the server broke off. Reports an exchange that cannot be written; throws nothing. */
  keep({ method, target, body }: Passing, answer: RecordedAnswer, broken: boolean): void {
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
      this.#say(`not recorded: ${path}, ${unfit ?? TOO_LONG}`);
      return;
    }
    this.#full = this.#folder.count === FILES_MOST || this.#bytes + bytes > FOLDER_BYTES;
    if (this.#full) {
      this.#say(
        `nothing more is recorded: a folder of fixtures has ${FILES_MOST} files, ${FOLDER_BYTES} bytes at most`,
      );
      return;
    }
    if (!this.#folder.write(text)) return;
    this.#asked.set(key, nth);
    this.#bytes += bytes;
  }

  /** Reports an exchange whose answer ended early on the client's side. A record would blame the server for that. */
  skip({ method, target }: Passing): void {
    if (method === "POST")
      this.#say(`not recorded: ${pathOf(target)}, the client left or a plan ended the answer early`);
  }

  /** Reports the exchanges that could not be written. Call it at the end. */
  close(): void {
    this.#folder.close();
  }
}
