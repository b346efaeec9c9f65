/**
 * How is kept what passes? A fixture per exchange (docs/fixtures.md), its request as the condition, its answer event by
 * event with its times. Keys are not written: no header of a request is, and of an answer those that could hold one are not.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { jsonIn } from "./question.ts";
import type { Passing } from "./upstream.ts";

/** A file that a server takes as a fixture has at most so many bytes. */
const FILE_BYTES = 1_048_576;
/** Fields of a body by which its answer is found again. */
const ASKED = ["model", "messages", "prompt", "input", "system", "tools", "stream", "max_tokens", "seed"];
const SECRET = /^(set-cookie|authorization|x-api-key|.*(token|secret|key).*)$/;
/** Made anew by whoever plays it. */
const ANEW = ["date", "server"];

/** One answer that is kept. */
export interface RecordedAnswer {
  status: number;
  headers: Readonly<Record<string, string>>;
  /** Microseconds after the request; text. An answer in one piece is one of them. */
  readonly events: [us: number, text: string][];
  /** The server broke off. */
  broken: boolean;
}

export class Recorder {
  readonly #folder: string;
  readonly #say: (line: string) => void;
  readonly #asked = new Map<string, number>();
  #count = 0;

  /** Makes the folder where there is none. Throws where it cannot be written. */
  constructor(folder: string, say: (line: string) => void) {
    mkdirSync(folder, { recursive: true });
    this.#folder = folder;
    this.#say = say;
  }

  keep({ method, target, body }: Passing, { status, headers, events, broken }: RecordedAnswer): void {
    const path = target.split("?")[0]!;
    if (method !== "POST") return;
    const json = jsonIn(body);
    const asked = Object.fromEntries(ASKED.flatMap((name) => (name in json ? [[name, { equals: json[name] }]] : [])));
    const key = JSON.stringify([path, asked]);
    const nth = (this.#asked.get(key) ?? 0) + 1;
    this.#asked.set(key, nth);
    const kept = Object.entries(headers).filter(([name]) => !SECRET.test(name) && !ANEW.includes(name));
    const recorded = { status, headers: Object.fromEntries(kept), broken, events };
    const text = `${JSON.stringify({ match: { path, body: asked, nth }, answer: { recorded } })}\n`;
    const name = `${String(++this.#count).padStart(6, "0")}.json`;
    if (Buffer.byteLength(text) > FILE_BYTES)
      this.#say(`not recorded: ${path}, ${Buffer.byteLength(text)} bytes of at most ${FILE_BYTES}`);
    else writeFileSync(join(this.#folder, name), text);
  }
}
