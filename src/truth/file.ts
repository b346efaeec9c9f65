/**
 * Writes the log to files of limited size. FILE.1 is the youngest of the older files. If a write fails, its lines are
 * lost and counted, and the next write tries again.
 */
import { closeSync, fstatSync, ftruncateSync, openSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import type { TruthDropped } from "../engine/interface/types.ts";
import { RowKind } from "./page.ts";
import { type EndLine, headerLine, type LogHeader } from "./schema.ts";
import type { TruthLogConfig } from "./truth-config.ts";

/** Bytes that are collected for one write. */
const CHUNK = 1 << 16;

export class TruthFile {
  /** Rows that did not reach the disk, and runs in them. */
  readonly lost = { run: 0, step: 0, request: 0 };
  #fd = -1;
  /** True for a regular file. Pipes and devices have no size limit and are not renamed. */
  #regular = true;
  /** True if the next write opens a new file. */
  #turn = true;
  /** Files opened so far; bytes of whole lines in the current file; lines in it or waiting for it. */
  #files = 0;
  #size = 0;
  #lines = 0;
  /** Text before the next line: the header of a new file, or the end of an incomplete line. */
  #lead = "";
  /** Lines that wait for a write, and how many rows they contain. */
  #text = "";
  #waiting = { run: 0, step: 0, request: 0 };
  #written = { step: 0, request: 0 };
  #warned = false;

  /** `warn` is called at most once. */
  constructor(
    private readonly config: TruthLogConfig,
    private readonly about: LogHeader,
    private readonly warn: (why: string) => void,
  ) {
    this.#turnOver();
    this.#save("");
  }

  /** Adds a row in ASCII, without a line end. */
  line(text: string, kind: RowKind, runs: number): void {
    this.#put(text);
    if (kind !== RowKind.Fault) this.#waiting[kind === RowKind.Step ? "step" : "request"]++;
    this.#waiting.run += runs;
    if (this.#text.length >= CHUNK) this.flush();
  }

  /** Writes the waiting lines. */
  flush(): void {
    const { run, step, request } = this.#waiting;
    const text = this.#text;
    this.#waiting = { run: 0, step: 0, request: 0 };
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

  /** Writes the last line. `dropped`: rows that were lost before they came here. */
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
    if (this.#regular && this.#lines > 0 && after > this.config.maxBytes) {
      this.flush();
      this.#turnOver();
    }
    this.#text += `${text}\n`;
    this.#lines++;
  }

  /** Starts a new file with the next line. Its header counts towards the size from now on. */
  #turnOver(): void {
    this.#turn = true;
    this.#lines = 0;
    this.#lead = `${headerLine(this.about, this.#files)}\n`;
  }

  #save(text: string): boolean {
    try {
      if (this.#turn) this.#open();
      this.#write(this.#lead + text);
      this.#lead = "";
      return true;
    } catch (error) {
      if (!this.#warned) this.warn(error instanceof Error ? error.message : String(error));
      this.#warned = true;
      return false;
    }
  }

  /** Opens a new file and renames the previous one. */
  #open(): void {
    const { file } = this.config;
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

  /** Renames FILE to FILE.1, FILE.1 to FILE.2 and so on, and deletes the oldest. */
  #shift(): void {
    const { file, files } = this.config;
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

  /** Handles a write that stopped in the middle: cuts the file after the last whole line, or continues on a new line. */
  #mend(): void {
    try {
      ftruncateSync(this.#fd, this.#size);
    } catch {
      if (!this.#lead.startsWith("\n")) this.#lead = `\n${this.#lead}`;
    }
  }
}
