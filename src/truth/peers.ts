/**
 * Lets each worker process answer for all. Each process listens on a socket file in the server's private folder. There
 * it returns only its own rows, and only other workers can connect.
 */
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Clock } from "../base/clock.ts";
import type { TruthQuery } from "./ask.ts";
import type { WorkerPage } from "./schema.ts";

/** A process that does not answer in this time is left out. */
const PATIENCE_US = 5_000_000;

/** Answers other processes with this process's rows. */
interface LocalRows {
  list(query: URLSearchParams): Response;
  one(id: string | undefined): Promise<Response>;
}

export class Peers {
  readonly #folder: string;
  /** Indices of the other processes. */
  readonly others: readonly number[];

  /** `page`: path of any file in the folder that all processes share. */
  constructor(
    page: string,
    readonly index: number,
    readonly workers: number,
    readonly clock: Clock,
  ) {
    this.#folder = dirname(page);
    this.others = Array.from({ length: workers }, (_, at) => at).filter((at) => at !== index);
  }

  /** Answers the other processes until this process ends. */
  listen(localRows: LocalRows): void {
    const file = this.#file(this.index);
    // A killed process may have left its socket file.
    rmSync(file, { force: true });
    Bun.serve({
      unix: file,
      fetch: (request) => {
        const { pathname, searchParams } = new URL(request.url);
        return pathname === "/" ? localRows.list(searchParams) : localRows.one(decodeURIComponent(pathname.slice(1)));
      },
    });
  }

  /** Returns the rows of another process and its last line. Returns null if it does not answer. */
  async list(other: number, { since, limit, steps }: TruthQuery): Promise<{ rows: string; page: WorkerPage } | null> {
    if (limit === 0 && since !== "end") return { rows: "", page: pageNotAsked(since) };
    const query = `since=${since ?? ""}&limit=${Math.max(1, limit)}&steps=${steps ? 1 : 0}`;
    const text = await this.#ask(other, `/?${query}`);
    if (text === null) return null;
    const last = text.trimEnd().lastIndexOf("\n") + 1;
    return { rows: text.slice(0, last), page: JSON.parse(text.slice(last)) as WorkerPage };
  }

  /** Returns the rows of one request with commas between them. Returns "" if the process has none or does not answer. */
  async one(other: number, id: string): Promise<string> {
    const text = await this.#ask(other, `/${encodeURIComponent(id)}`);
    return text === null ? "" : text.slice(text.indexOf("[") + 1, text.lastIndexOf("]"));
  }

  async #ask(other: number, path: string): Promise<string | null> {
    const { clock } = this;
    const patience = new AbortController();
    const forget = clock.at(clock.now() + PATIENCE_US, () => patience.abort());
    try {
      const { signal } = patience;
      const answer = await fetch(`http://localhost${path}`, { unix: this.#file(other), signal });
      return answer.ok ? await answer.text() : null;
    } catch {
      return null;
    } finally {
      forget();
    }
  }

  #file(index: number): string {
    return join(this.#folder, `w${index}.sock`);
  }
}

/** Returns the last line of a process that was not asked because the limit was reached. It may have more rows. */
function pageNotAsked(since: number | null): WorkerPage {
  return { type: "page", requests: 0, steps: 0, next: since === null ? "" : String(since), more: true, missed: 0 };
}
