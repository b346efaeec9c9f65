/** Routes for the truth of the last requests: `GET /understudy/requests` for all, or with an id for one. */
import { type RouteEntry, routes } from "../wire/http/routes.ts";
import { envelopeOf, rowsOf, rowsSince, type TruthQuery } from "./ask.ts";
import type { Peers } from "./peers.ts";
import type { RecentRows } from "./recent.ts";
import type { LogHeader, WorkerPage } from "./schema.ts";

const PATH = "/understudy/requests";
/** Default number of rows in an answer. */
const LIMIT = 1000;
const LIMIT_MOST = 10_000;
/** Largest number of answers in progress. Further requests are refused. */
const ANSWERS_MOST = 16;
/** A cursor has one number per worker. An empty number starts with the oldest row. */
const CURSOR = /^(?:\d{0,16})(?:\.\d{0,16})*$/;

/** Paths and their methods, so that other methods get 405. */
export const TRUTH_METHODS: Readonly<Record<string, readonly string[]>> = { [PATH]: ["GET"] };

interface TruthRoutesOptions {
  /** null if no rows are kept. */
  readonly recent: RecentRows | null;
  readonly about: LogHeader;
  /** Resolves when the thread has a quarter of a millisecond to spare. */
  readonly spare: () => Promise<unknown>;
  /** Measures how long a piece of work occupies the thread. */
  readonly worked: <T>(work: () => T) => T;
  /** Bodies that clients sent. null if they are not kept. */
  readonly sent: SentRequests | null;
  /** The server's other processes. null if this is the only one. */
  readonly peers: Peers | null;
}

/** Requests by number. Numbers rise in the order of arrival. */
interface SentRequests {
  /** Numbers of the oldest kept request and of the next one. */
  readonly first: number;
  readonly next: number;
  row(number: number): object | undefined;
}

type Pieces<T> = AsyncGenerator<string, T>;

export function truthRoutes(options: TruthRoutesOptions): RouteEntry[] {
  const queries = new TruthQueries(options);
  options.peers?.listen(new TruthQueries({ ...options, peers: null }));
  return routes({
    [`GET ${PATH}`]: ({ request }) => queries.list(new URL(request.url).searchParams),
    [`GET ${PATH}/*`]: ({ request }) => queries.one(idIn(request.url)),
  });
}

/** Returns the id in the path. Returns undefined if it is not correctly URL-encoded. */
function idIn(url: string): string | undefined {
  const { pathname } = new URL(url);
  try {
    return decodeURIComponent(pathname.slice(PATH.length + 1));
  } catch {
    return undefined;
  }
}

/** Answers queries for this process, or for all processes if it has peers. */
class TruthQueries {
  #open = 0;

  constructor(private readonly options: TruthRoutesOptions) {}

  list(query: URLSearchParams): Response {
    const { recent, peers } = this.options;
    const sent = query.get("sent") ?? "0";
    if (sent !== "0" && sent !== "1") return refusal(400, `sent must be 0 or 1, not "${sent}"`, "sent");
    if (sent === "1") return this.#sentRequests(query);
    if (recent === null) return notKept();
    const limit = query.get("limit") ?? String(LIMIT);
    const since = query.get("since") ?? "";
    const steps = query.get("steps") ?? "1";
    const wrong = wrongLimit(limit);
    if (wrong !== null) return wrong;
    if (since !== "end" && !(CURSOR.test(since) && since.split(".").length <= (peers?.workers ?? 1)))
      return refusal(400, `since must be "end" or the "next" of an earlier answer, not "${since}"`, "since");
    if (steps !== "0" && steps !== "1") return refusal(400, `steps must be 0 or 1, not "${steps}"`, "steps");
    if (!this.#enter()) return busy();
    return this.#stream("application/jsonl", this.#lists(since, Number(limit), steps === "1"));
  }

  #sentRequests(query: URLSearchParams): Response {
    const { sent } = this.options;
    if (sent === null) return refusal(404, "request bodies are not kept: the server runs without --keep-bodies", null);
    const limit = query.get("limit") ?? String(LIMIT);
    const since = query.get("since") ?? "";
    const wrong = wrongLimit(limit);
    if (wrong !== null) return wrong;
    if (since !== "end" && !/^\d{0,16}$/.test(since))
      return refusal(400, `since must be "end" or the "next" of an earlier answer, not "${since}"`, "since");
    if (!this.#enter()) return busy();
    const from = since === "end" ? sent.next : Number(since);
    return this.#stream("application/jsonl", this.#own(sentRows(sent, from, Number(limit))));
  }

  async one(id: string | undefined): Promise<Response> {
    const { recent, about } = this.options;
    if (recent === null) return notKept();
    if (id === undefined || id === "") return refusal(400, "the path has no id, or one that is not URL-encoded", "id");
    if (!this.#enter()) return busy();
    const pieces = this.#ones(id);
    // The status depends on the first piece, because an unknown request is 404.
    const first = await pieces.next().catch((reason) => {
      this.#open--;
      throw reason;
    });
    if (first.done) {
      this.#open--;
      return refusal(404, UNKNOWN, "id");
    }
    const [before, after] = envelopeOf(about);
    return this.#stream("application/json", surrounded(before + first.value, pieces, after));
  }

  /** Yields this process's rows in pieces between engine steps. */
  async *#own<T>(pieces: Generator<string, T>): Pieces<T> {
    for (;;) {
      await this.options.spare();
      const { value, done } = this.options.worked(() => pieces.next());
      if (done) return value as T;
      if (value !== "") yield value as string;
    }
  }

  async *#lists(since: string, limit: number, steps: boolean): Pieces<void> {
    const { recent, about, peers } = this.options;
    const cursors = since === "end" ? [] : since.split(".");
    const queryOf = (index: number, left: number): TruthQuery => {
      const cursor = cursors[index] ?? "";
      return { since: since === "end" ? "end" : cursor === "" ? null : Number(cursor), limit: left, steps };
    };
    const index = peers?.index ?? 0;
    const page = yield* this.#own(rowsSince(recent!, about, queryOf(index, limit)));
    if (peers === null) {
      yield `${JSON.stringify(page)}\n`;
      return;
    }
    const pages: (WorkerPage | null)[] = [];
    pages[index] = page;
    let left = limit - page.requests;
    for (const other of peers.others) {
      const answer = await peers.list(other, queryOf(other, left));
      pages[other] = answer?.page ?? null;
      left -= answer?.page.requests ?? 0;
      if (answer !== null) yield answer.rows;
    }
    yield `${JSON.stringify({ ...joined(pages, cursors, peers.workers), keeps: page.keeps })}\n`;
  }

  async *#ones(id: string): Pieces<void> {
    const { recent, peers } = this.options;
    let before = "";
    for await (const piece of this.#own(rowsOf(recent!, id))) {
      yield piece;
      before = ",";
    }
    for (const other of peers?.others ?? []) {
      const rows = await peers!.one(other, id);
      if (rows === "") continue;
      yield before + rows;
      before = ",";
    }
  }

  /** Counts an answer in progress. Returns false if there are too many. */
  #enter(): boolean {
    if (this.#open >= ANSWERS_MOST) return false;
    this.#open++;
    return true;
  }

  /** Streams an answer that `#enter` has counted, and ends the count with it. */
  #stream(contentType: string, pieces: AsyncGenerator<string>): Response {
    let closed = false;
    const close = () => {
      if (!closed) this.#open--;
      closed = true;
    };
    const encoder = new TextEncoder();
    const body = new ReadableStream<Uint8Array>({
      async pull(out) {
        const { value, done } = await pieces.next().catch((reason) => {
          close();
          throw reason;
        });
        if (!done) return out.enqueue(encoder.encode(value));
        close();
        out.close();
      },
      async cancel() {
        close();
        await pieces.return(undefined);
      },
    });
    return new Response(body, { headers: { "content-type": contentType } });
  }
}

/** Yields one request per piece. The last piece has the next cursor. */
function* sentRows(sent: SentRequests, from: number, limit: number): Generator<string, void> {
  let [number, rows] = [Math.max(from, sent.first), 0];
  const missed = number - from;
  for (; number < sent.next && rows < limit; number++) {
    const row = sent.row(number);
    if (row === undefined) continue;
    rows++;
    yield `${JSON.stringify({ type: "sent", ...row })}\n`;
  }
  yield `${JSON.stringify({ type: "page", sent: rows, next: String(number), more: number < sent.next, missed })}\n`;
}

function wrongLimit(limit: string): Response | null {
  if (/^\d{1,5}$/.test(limit) && Number(limit) >= 1 && Number(limit) <= LIMIT_MOST) return null;
  return refusal(400, `limit must be a whole number from 1 to ${LIMIT_MOST}, not "${limit}"`, "limit");
}

async function* surrounded(before: string, pieces: AsyncGenerator<string>, after: string): AsyncGenerator<string> {
  yield before;
  yield* pieces;
  yield after;
}

/** Combines the last lines of all workers. A worker that did not answer keeps its cursor. */
function joined(pages: readonly (WorkerPage | null)[], cursors: readonly string[], workers: number): WorkerPage {
  const each = Array.from({ length: workers }, (_, index) => pages[index] ?? null);
  const sum = (of: (page: WorkerPage) => number) => each.reduce((all, page) => all + (page ? of(page) : 0), 0);
  const unreachable = each.flatMap((page, index) => (page === null ? [index] : []));
  return {
    type: "page",
    requests: sum(({ requests }) => requests),
    steps: sum(({ steps }) => steps),
    next: each.map((page, index) => page?.next ?? cursors[index] ?? "").join("."),
    more: each.some((page) => page?.more === true),
    missed: sum(({ missed }) => missed),
    ...(unreachable.length > 0 ? { unreachable } : {}),
  };
}

const UNKNOWN =
  "no such request among the kept ones: it never arrived, still runs, or ended too long ago (--truth-requests)";

function refusal(code: number, message: string, param: string | null, headers: Record<string, string> = {}): Response {
  const type = code === 404 ? "NotFoundError" : code === 503 ? "ServiceUnavailableError" : "BadRequestError";
  return Response.json({ error: { message, type, param, code } }, { status: code, headers });
}

const notKept = () => refusal(404, "no requests are kept: the server runs with --truth-requests 0", null);

const busy = () => refusal(503, `at most ${ANSWERS_MOST} answers of this kind at a time`, null, { "retry-after": "1" });
