/**
 * How is kept what passes? A fixture per exchange (docs/fixtures.md), its request as the condition, its answer event by
 * event with its times. Keys are not written: no header of a request is, and of an answer those that could hold one are not.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { jsonIn } from "./question.ts";
import type { Passing } from "./upstream.ts";

/** A server takes fixtures of so many bytes in a file and in a folder, and so many files (docs/fixtures.md). */
const FILE_BYTES = 1_048_576;
const FOLDER_BYTES = 16 * 2 ** 20;
const FILES_MOST = 1000;
/** Fields of a body by which its answer is found again. */
const ASKED = ["model", "messages", "prompt", "input", "system", "tools", "stream", "max_tokens", "seed"];
const SECRET = /^(set-cookie|authorization|x-api-key|.*(token|secret|key).*)$/;
/** Made anew by whoever plays it. */
const ANEW = ["date", "server"];

/** One answer as it passed. */
export class RecordedAnswer {
  /** Microseconds after the request; text. An answer in one piece is one of them. null: it is too long to be kept. */
  events: [us: number, text: string][] | null = [];
  #characters = 0;

  constructor(
    readonly status: number,
    readonly headers: Readonly<Record<string, string>>,
    /** When its request came, microseconds since 1970. */
    readonly arrivalUs: number,
  ) {}

  event(us: number, text: string): void {
    this.#characters += text.length;
    if (this.#characters > FILE_BYTES) this.events = null;
    this.events?.push([us, text]);
  }
}

const nameOf = (ordinal: number) => `${String(ordinal).padStart(6, "0")}.json`;

export class UsedFolder extends Error {
  override readonly name = "UsedFolder";
}

export class Recorder {
  readonly #folder: string;
  readonly #say: (line: string) => void;
  readonly #asked = new Map<string, number>();
  #count = 0;
  #bytes = 0;
  #full = false;

  /** Makes the folder where there is none. Throws where it cannot be written, or has records: who plays it back would mix them. */
  constructor(folder: string, say: (line: string) => void) {
    mkdirSync(folder, { recursive: true });
    if (existsSync(join(folder, nameOf(1)))) throw new UsedFolder("has records already; take an empty folder");
    this.#folder = folder;
    this.#say = say;
  }

  /** `broken`: the server broke off. */
  keep(
    { method, target, body }: Passing,
    { status, headers, events, arrivalUs }: RecordedAnswer,
    broken: boolean,
  ): void {
    const path = target.split("?")[0]!;
    if (method !== "POST" || this.#full) return;
    const json = jsonIn(body);
    const asked = Object.fromEntries(ASKED.flatMap((name) => (name in json ? [[name, { equals: json[name] }]] : [])));
    const kept = Object.entries(headers).filter(([name]) => !SECRET.test(name) && !ANEW.includes(name));
    const recorded = { status, headers: Object.fromEntries(kept), broken, arrival_us: arrivalUs, events };
    const key = JSON.stringify([path, asked]);
    const nth = (this.#asked.get(key) ?? 0) + 1;
    const text = `${JSON.stringify({ match: { path, body: asked, nth }, answer: { recorded } })}\n`;
    const bytes = Buffer.byteLength(text);
    if (events === null || bytes > FILE_BYTES) {
      this.#say(`not recorded: ${path}, more than ${FILE_BYTES} bytes`);
      return;
    }
    this.#full = this.#count === FILES_MOST || this.#bytes + bytes > FOLDER_BYTES;
    if (this.#full) {
      this.#say(
        `nothing more is recorded: a folder of fixtures has ${FILES_MOST} files, ${FOLDER_BYTES} bytes at most`,
      );
      return;
    }
    this.#asked.set(key, nth);
    this.#bytes += bytes;
    writeFileSync(join(this.#folder, nameOf(++this.#count)), text);
  }
}
