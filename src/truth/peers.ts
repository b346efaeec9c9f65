/**
 * How does one of several processes answer for all? Each listens on a socket file in the server's private folder, where
 * only the others ask, and each of them tells its own rows alone.
 */
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Clock } from "../base/clock.ts";
import type { TruthQuery } from "./ask.ts";
import type { WorkerPage } from "./schema.ts";

/** A process that hangs is passed over. */
const PATIENCE_US = 5_000_000;

/** Who may be asked for its own rows. */
export interface Own {
  list(query: URLSearchParams): Response;
  one(id: string | undefined): Promise<Response>;
}

export class Peers {
  readonly #folder: string;
  /** Places of the others. */
  readonly others: readonly number[];

  /** `page`: a file in the folder. */
  constructor(
    page: string,
    readonly index: number,
    readonly workers: number,
    readonly clock: Clock,
  ) {
    this.#folder = dirname(page);
    this.others = Array.from({ length: workers }, (_, at) => at).filter((at) => at !== index);
  }

  /** Answers the other processes from now on, until this process ends. */
  listen(own: Own): void {
    const file = this.#file(this.index);
    // Left by a process that was killed.
    rmSync(file, { force: true });
    Bun.serve({
      unix: file,
      fetch: (request) => {
        const { pathname, searchParams } = new URL(request.url);
        return pathname === "/" ? own.list(searchParams) : own.one(decodeURIComponent(pathname.slice(1)));
      },
    });
  }

  /** The rows of another one, and its last line; null: it does not answer. */
  async list(other: number, { since, limit, steps }: TruthQuery): Promise<{ rows: string; page: WorkerPage } | null> {
    if (limit === 0 && since !== "end") return { rows: "", page: unasked(since) };
    const query = `since=${since ?? ""}&limit=${Math.max(1, limit)}&steps=${steps ? 1 : 0}`;
    const text = await this.#ask(other, `/?${query}`);
    if (text === null) return null;
    const last = text.trimEnd().lastIndexOf("\n") + 1;
    return { rows: text.slice(0, last), page: JSON.parse(text.slice(last)) as WorkerPage };
  }

  /** The rows of one request, with commas between them; "": it has none, or does not answer. */
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

/** Where there was no room for its rows: there may be some. */
function unasked(since: number | null): WorkerPage {
  return { type: "page", requests: 0, steps: 0, next: since === null ? "" : String(since), more: true, missed: 0 };
}
