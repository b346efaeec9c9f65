/**
 * Where do the lines go, and what if they cannot? A file with a size limit, and older ones beside it: FILE.1 is the
 * youngest of them. A write that fails loses its lines, counted, and the next one tries again.
 */
import { closeSync, fstatSync, ftruncateSync, openSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import type { TruthDropped } from "../engine/interface/types.ts";
import { RowKind } from "./page.ts";
import { type About, type EndLine, headerLine } from "./schema.ts";
import type { TruthLogConfig } from "./truth-config.ts";

/** Bytes that wait for one write. */
const CHUNK = 1 << 16;

export class TruthFile {
  /** Rows, and runs in them, that did not get to the disk. */
  readonly lost = { run: 0, step: 0, request: 0 };
  readonly #config: TruthLogConfig;
  readonly #about: About;
  readonly #warn: (why: string) => void;
  #fd = -1;
  /** Pipes and devices are neither limited nor renamed. */
  #regular = true;
  /** The next write goes to a new file. */
  #turn = true;
  /** Files begun; bytes of whole lines in this one; lines in it and on their way to it. */
  #files = 0;
  #size = 0;
  #lines = 0;
  /** What goes before the next line: the header of a new file, the end of a torn line. */
  #lead = "";
  /** Lines that wait, and what is in them. */
  #text = "";
  #held = { run: 0, step: 0, request: 0 };
  #written = { step: 0, request: 0 };
  #warned = false;

  /** `warn` is called at most once. */
  constructor(config: TruthLogConfig, about: About, warn: (why: string) => void) {
    this.#config = config;
    this.#about = about;
    this.#warn = warn;
    this.#turnOver();
    this.#save("");
  }

  /** One row: ASCII without the line's end. */
  line(text: string, kind: RowKind, runs: number): void {
    this.#put(text);
    if (kind !== RowKind.Fault) this.#held[kind === RowKind.Step ? "step" : "request"]++;
    this.#held.run += runs;
    if (this.#text.length >= CHUNK) this.flush();
  }

  /** Writes what waits. */
  flush(): void {
    const { run, step, request } = this.#held;
    const text = this.#text;
    this.#held = { run: 0, step: 0, request: 0 };
    this.#text = "";
    if (text === "") return;
    if (this.#save(text)) {
      this.#written.step += step;
      this.#written.request += request;
    } else {
      this.lost.run += run;
      this.lost.step += step;
      this.lost.request += request;
    }
  }

  /** The last line; `dropped`: what was lost before it came here. */
  close(dropped: TruthDropped): void {
    this.flush();
    const { lost } = this;
    const end: EndLine = {
      type: "end",
      steps: this.#written.step,
      requests: this.#written.request,
      dropped: {
        run: dropped.run + lost.run,
        step: dropped.step + lost.step,
        request: dropped.request + lost.request,
      },
    };
    this.#put(JSON.stringify(end));
    this.flush();
    if (this.#fd >= 0) closeSync(this.#fd);
    this.#fd = -1;
  }

  #put(text: string): void {
    const size = this.#turn ? 0 : this.#size;
    const after = size + this.#lead.length + this.#text.length + text.length + 1;
    if (this.#regular && this.#lines > 0 && after > this.#config.maxBytes) {
      this.flush();
      this.#turnOver();
    }
    this.#text += `${text}\n`;
    this.#lines++;
  }

  /** The next line goes to a new file, whose header counts from now on. */
  #turnOver(): void {
    this.#turn = true;
    this.#lines = 0;
    this.#lead = `${headerLine(this.#about, this.#files)}\n`;
  }

  #save(text: string): boolean {
    try {
      if (this.#turn) this.#open();
      this.#write(this.#lead + text);
      this.#lead = "";
      return true;
    } catch (error) {
      if (!this.#warned) this.#warn(error instanceof Error ? error.message : String(error));
      this.#warned = true;
      return false;
    }
  }

  /** A new file under the name; the one before stays beside it. */
  #open(): void {
    const { file } = this.#config;
    const before = statSync(file, { throwIfNoEntry: false });
    if (before?.isFile() && before.size > 0) this.#shift();
    const fd = openSync(file, "a");
    if (this.#fd >= 0) closeSync(this.#fd);
    this.#fd = fd;
    this.#regular = fstatSync(fd).isFile();
    this.#turn = false;
    this.#size = 0;
    this.#files++;
  }

  /** FILE becomes FILE.1, that one FILE.2; the oldest goes. */
  #shift(): void {
    const { file, files } = this.#config;
    const name = (age: number) => (age === 0 ? file : `${file}.${age}`);
    rmSync(name(files - 1), { force: true });
    for (let age = files - 2; age >= 0; age--) {
      if (statSync(name(age), { throwIfNoEntry: false })) renameSync(name(age), name(age + 1));
    }
  }

  #write(text: string): void {
    const bytes = Buffer.from(text, "latin1");
    let done = 0;
    try {
      while (done < bytes.length) done += writeSync(this.#fd, bytes, done);
    } catch (error) {
      if (done > 0) this.#mend();
      throw error;
    }
    this.#size += bytes.length;
  }

  /** A write stopped in the middle: back to the last whole line, or on with a new one. */
  #mend(): void {
    try {
      ftruncateSync(this.#fd, this.#size);
    } catch {
      if (!this.#lead.startsWith("\n")) this.#lead = `\n${this.#lead}`;
    }
  }
}
