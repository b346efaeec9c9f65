/** Checks that a running server reports the truth about its last requests, and that it equals the truth log. */
import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { HeaderLine, PageLine, RequestLine, StepLine, TruthLine } from "../../src/truth/schema.ts";
import { hosted } from "../hosted.ts";
import { eventually, sample, serve } from "../server.ts";

const FLAGS = ["--served-model-name", "m", "--timing", "constant:ttft=10ms,itl=2ms", "--disable-uvicorn-access-log"];

interface ExpandedRequest extends RequestLine {
  readonly tokens: Readonly<Record<"dueUs" | "writeStartUs" | "writeEndUs", number[]>>;
}

async function say(url: string, id: string, body: object, path = "/v1/completions"): Promise<Response> {
  return fetch(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-request-id": id },
    body: JSON.stringify({ model: "m", max_tokens: 8, ignore_eos: true, ...body }),
    keepalive: false,
  });
}

async function list(url: string, query = "") {
  const response = await fetch(`${url}/understudy/requests${query}`);
  expect([response.status, response.headers.get("content-type")]).toEqual([200, "application/jsonl"]);
  const lines = (await response.text())
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as TruthLine);
  return {
    headers: lines.filter((line): line is HeaderLine => line.type === "header"),
    steps: lines.filter((line): line is StepLine => line.type === "step"),
    requests: lines.filter((line): line is RequestLine => line.type === "request"),
    page: lines.at(-1) as PageLine,
  };
}

async function truthOf(
  url: string,
  id: string,
): Promise<{ status: number; requests: ExpandedRequest[]; error?: object }> {
  const response = await fetch(`${url}/understudy/requests/${encodeURIComponent(id)}`);
  const { requests = [], error } = (await response.json()) as { requests?: ExpandedRequest[]; error?: object };
  return { status: response.status, requests, ...(error ? { error } : {}) };
}

test("rows by id and in pages equal those of the truth log, with the times of their tokens", async () => {
  const folder = await mkdtemp(join(tmpdir(), "understudy-requests-"));
  const file = join(folder, "truth.jsonl");
  const server = await hosted([...FLAGS, "--truth-log", file]);
  try {
    const start = (await list(server.url, "?since=end")).page.next;
    const messages = [{ role: "user", content: "Hello" }];
    const chat = (await (await say(server.url, "chat/1 ü", { messages }, "/v1/chat/completions")).json()) as {
      id: string;
    };
    const stream = await (await say(server.url, "stream", { prompt: "Hello", stream: true, max_tokens: 40 })).text();
    await (await say(server.url, "four", { prompt: ["One", "Two"], n: 2 })).text();

    // The row exists when the client has the end of its answer.
    const { status, requests } = await truthOf(server.url, "four");
    expect([status, requests.map(({ id }) => id)]).toEqual([
      200,
      ["0_cmpl-four-0", "1_cmpl-four-0", "0_cmpl-four-1", "1_cmpl-four-1"],
    ]);
    expect((await truthOf(server.url, "cmpl-four")).requests).toEqual(requests);
    expect((await truthOf(server.url, "1_cmpl-four-0")).requests).toEqual([requests[1]!]);
    expect((await truthOf(server.url, chat.id)).requests).toEqual((await truthOf(server.url, "chat/1 ü")).requests);
    expect((await truthOf(server.url, chat.id)).requests).toMatchObject([{ requestId: "chat/1 ü", outputTokens: 8 }]);

    const [row] = (await truthOf(server.url, "stream")).requests as [ExpandedRequest];
    const { dueUs, writeStartUs, writeEndUs } = row.tokens;
    expect([dueUs.length, writeStartUs.length, writeEndUs.length]).toEqual([40, 40, 40]);
    expect([dueUs[0]!, dueUs.at(-1)!]).toEqual([row.prefillEndUs!, row.endUs!]);
    // A host that was late by more than 100 ms moved the clock.
    const { rebasedUs } = row.late;
    if (rebasedUs === 0) expect(dueUs.slice(1).map((us, i) => us - dueUs[i]!)).toEqual(Array(39).fill(2000));
    for (const [i, us] of writeStartUs.entries()) {
      expect(us).toBeGreaterThanOrEqual(dueUs[i]!);
      expect(writeEndUs[i]!).toBeGreaterThanOrEqual(us);
    }
    expect(row.firstWrittenUs!).toBeGreaterThanOrEqual(writeStartUs[0]!);
    expect(row.firstWrittenUs!).toBeLessThanOrEqual(writeEndUs[0]!);
    expect(row.lastWrittenUs!).toBeGreaterThanOrEqual(writeStartUs.at(-1)!);
    expect(row.lastWrittenUs!).toBeLessThanOrEqual(writeEndUs.at(-1)!);
    expect(row.bytes).toBe(Buffer.byteLength(stream));
    const late = writeStartUs.map((us, i) => us - dueUs[i]!).filter((us) => us > 1000);
    expect(row.late).toEqual({ steps: late.length, us: late.reduce((sum, us) => sum + us, 0), rebasedUs });

    // Three complete pages.
    const pages = [];
    for (let [next, more] = [start, true]; more; ) {
      const page = await list(server.url, `?since=${next}&limit=2`);
      for (const { engine, runs } of page.requests)
        for (const [first, count] of runs)
          for (let step = first; step < first + count; step++)
            expect(page.steps.filter((line) => line.engine === engine && line.step === step)).toHaveLength(1);
      pages.push(page);
      ({ next, more } = page.page);
    }
    expect(pages.map(({ requests }) => requests.length)).toEqual([2, 2, 2]);
    expect(pages.map(({ page }) => page.missed)).toEqual([0, 0, 0]);
    const whole = await list(server.url);
    expect(pages.flatMap((page) => page.requests)).toEqual(whole.requests);
    expect((await list(server.url, `?since=${whole.page.next}`)).requests).toEqual([]);
    expect((await list(server.url, "?steps=0")).steps).toEqual([]);
    // Like for /metrics, requests of a measuring tool do not count.
    expect(await sample(server.url, 'http_requests_total{handler="none"')).toBeNaN();

    await server.stop();
    const logged = (await Bun.file(file).text())
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as TruthLine);
    expect(whole.requests).toEqual(logged.filter((line): line is RequestLine => line.type === "request"));
    expect(whole.headers[0]).toEqual(logged[0] as HeaderLine);
    const byStep = new Map(logged.flatMap((line) => (line.type === "step" ? [[line.step, line] as const] : [])));
    for (const step of whole.steps) expect(step).toEqual(byStep.get(step.step)!);
  } finally {
    await server.stop();
    await rm(folder, { recursive: true });
  }
});

test("only the last N are kept, missed rows are counted, and unknown ids and bad queries get errors in the usual form", async () => {
  const server = await hosted([...FLAGS, "--truth-requests", "3"]);
  try {
    const { next } = (await list(server.url, "?since=end")).page;
    for (let i = 0; i < 5; i++) await (await say(server.url, `r${i}`, { prompt: "Hello" })).text();
    const { requests, page } = await list(server.url, `?since=${next}`);
    expect(requests.map(({ requestId }) => requestId)).toEqual(["r2", "r3", "r4"]);
    expect(page).toMatchObject({ requests: 3, more: false, missed: 2, keeps: 3 });
    const type = "NotFoundError";
    expect(await truthOf(server.url, "r1")).toMatchObject({ status: 404, error: { type, param: "id", code: 404 } });
    for (const [query, param] of [
      ["limit=0", "limit"],
      ["limit=10001", "limit"],
      ["limit=x", "limit"],
      ["since=x", "since"],
      ["since=1.2", "since"],
      ["steps=2", "steps"],
    ]) {
      const response = await fetch(`${server.url}/understudy/requests?${query}`);
      expect([query, response.status, await response.json()]).toEqual([
        query!,
        400,
        { error: expect.objectContaining({ type: "BadRequestError", param, code: 400 }) },
      ]);
    }
    expect((await fetch(`${server.url}/understudy/requests/%ff`)).status).toBe(400);
    expect((await fetch(`${server.url}/understudy/requests`, { method: "POST" })).status).toBe(405);
  } finally {
    await server.stop();
  }
});

test("clients that disconnect, or send all queries at once, exhaust nothing", async () => {
  const server = await hosted(FLAGS);
  try {
    const body = { prompt: Array(500).fill("Hello"), max_tokens: 2 };
    await (await say(server.url, "many", body)).text();
    for (let i = 0; i < 60; i++) {
      const leaving = new AbortController();
      const path = i % 2 ? "" : "/many";
      const { body } = await fetch(`${server.url}/understudy/requests${path}`, { signal: leaving.signal });
      await body!.getReader().read();
      leaving.abort();
    }
    const all = await Promise.all(Array.from({ length: 100 }, () => fetch(`${server.url}/understudy/requests/many`)));
    const counted = await Promise.all(all.map(async (response) => [response.status, (await response.text()).length]));
    const [whole] = counted.filter(([status]) => status === 200);
    for (const [status, length] of counted) {
      if (status === 200) expect(length).toBe(whole![1]!);
      else expect(status).toBe(503);
    }
    await eventually(async () => (await fetch(`${server.url}/understudy/requests/many`)).status === 200);
    expect((await truthOf(server.url, "many")).requests).toHaveLength(500);
  } finally {
    await server.stop();
  }
});

test("--truth-requests 0 keeps nothing", async () => {
  const server = await hosted([...FLAGS, "--truth-requests", "0"]);
  try {
    await (await say(server.url, "a", { prompt: "Hello" })).text();
    expect((await fetch(`${server.url}/understudy/requests`)).status).toBe(404);
    expect((await truthOf(server.url, "a")).status).toBe(404);
  } finally {
    await server.stop();
  }
});

// Only Linux spreads connections over processes.
test.skipIf(process.platform !== "linux")(
  "any worker answers for all, and the rows of a killed worker are lost",
  async () => {
    const server = await serve([...FLAGS, "--workers", "3"]);
    try {
      const start = (await list(server.url, "?since=end")).page.next;
      const ids = Array.from({ length: 30 }, (_, i) => `w${i}`);
      await Promise.all(ids.map(async (id) => (await say(server.url, id, { prompt: "Hello" })).text()));
      const all = await list(server.url, `?since=${start}`);
      expect(all.headers.map(({ worker }) => worker).toSorted()).toEqual([0, 1, 2]);
      expect(all.requests.map(({ requestId }) => requestId).toSorted()).toEqual(ids.toSorted());
      expect(all.page).toMatchObject({ requests: 30, more: false, missed: 0, keeps: 1000 });
      expect(new Set(all.requests.map(({ engine }) => engine)).size).toBeGreaterThan(1);
      // Small pages are also complete, although any worker may answer each of them.
      const found: (string | null)[] = [];
      for (let [next, more] = [start, true]; more; ) {
        const page = await list(server.url, `?since=${next}&limit=7`);
        expect(page.requests.length).toBeLessThanOrEqual(7);
        found.push(...page.requests.map(({ requestId }) => requestId));
        ({ next, more } = page.page);
      }
      expect(found.toSorted()).toEqual(ids.toSorted());
      for (const id of ids) {
        const { requests } = await truthOf(server.url, id);
        expect(requests.map(({ requestId, tokens }) => [requestId, tokens.dueUs.length])).toEqual([[id, 8]]);
      }
      expect((await truthOf(server.url, "other")).status).toBe(404);

      const pids = /\d processes: ([\d, ]+)/.exec(server.output())![1]!.split(/[, ]+/).filter(Boolean).map(Number);
      process.kill(pids[1]!, "SIGKILL");
      await eventually(async () => (await sample(server.url, "understudy_worker_restarts_total")) === 1);
      await eventually(async () => (await list(server.url)).page.unreachable === undefined);
      const after = await list(server.url, `?since=${start}`);
      const lost = all.requests.filter(({ engine }) => engine === 1).length;
      expect(after.requests).toHaveLength(30 - lost);
    } finally {
      await server.stop();
    }
  },
);

test("--keep-bodies returns the clients' bodies, oldest first, from a cursor on", async () => {
  const server = await hosted([...FLAGS, "--keep-bodies", "--api-key", "secret"]);
  try {
    const key = { authorization: "Bearer secret" };
    const asked = async (query: string) => {
      const response = await fetch(`${server.url}/understudy/requests?${query}`, { headers: key });
      const text = (await response.text()).trimEnd();
      if (response.status !== 200) return { status: response.status, error: JSON.parse(text).error };
      const lines = text.split("\n").map((line) => JSON.parse(line));
      return { status: 200, rows: lines.slice(0, -1), page: lines.at(-1) };
    };
    const { page: start } = await asked("sent=1&since=end");
    const headers = { ...key, "content-type": "application/json" };
    const post = (body: object) =>
      fetch(`${server.url}/v1/completions`, { method: "POST", headers, body: JSON.stringify(body) });
    await (await post({ model: "m", prompt: "Hello", max_tokens: 3, ignore_eos: true })).text();
    await (await post({ model: "m", prompt: 5 })).text();
    const { rows = [], page } = await asked(`sent=1&since=${start.next}`);
    // This request is in the list, too.
    expect(rows).toMatchObject([
      {
        ...{ type: "sent", method: "POST", path: "/v1/completions", status: 200, outcome: "answered", tokens: 3 },
        ...{ body: { model: "m", prompt: "Hello", max_tokens: 3, ignore_eos: true }, finish: ["length"] },
        headers: { authorization: "[struck out]" },
        generations: [{ promptTokens: 1, preemptions: 0 }],
      },
      { type: "sent", outcome: "refused", status: 400, body: { prompt: 5 }, generations: [] },
      { method: "GET", path: `/understudy/requests?sent=1&since=${start.next}`, status: 200 },
    ]);
    expect(page).toMatchObject({ type: "page", sent: rows.length, more: false, missed: 0 });
    const first = await asked("sent=1&limit=1");
    expect(first.page).toMatchObject({ sent: 1, next: "1", more: true });
    expect(first.rows).toMatchObject([
      { path: "/understudy/requests?sent=1&since=end", status: 200, outcome: "answered" },
    ]);
    expect(await asked("sent=2")).toMatchObject({ status: 400, error: { param: "sent" } });
    expect(await asked("sent=1&since=x")).toMatchObject({ status: 400, error: { param: "since" } });
    expect(await asked("sent=1&limit=0")).toMatchObject({ status: 400, error: { param: "limit" } });
    expect((await fetch(`${server.url}/understudy/requests?sent=1`)).status).toBe(401);
  } finally {
    await server.stop();
  }
  const plain = await hosted(FLAGS);
  try {
    expect((await fetch(`${plain.url}/understudy/requests?sent=1`)).status).toBe(404);
  } finally {
    await plain.stop();
  }
});
