/**
 * Checks the truth log of a live server under load. Two ranks with small pools cause preemptions; there are choices, stop
 * strings, refusals, disconnects, and a log that continues in new files. The clients' observations, the metrics page and the
 * log must agree exactly.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CAUSE_NAMES, type CauseName } from "../../src/engine/lateness/causes.ts";
import type { EndLine, HeaderLine, RequestLine, StepLine, TruthLine } from "../../src/truth/schema.ts";
import { type ParsedFamily, parseExposition } from "../metrics/parse.ts";
import { main } from "../program.ts";
import { eventually, serve } from "../server.ts";

setDefaultTimeout(60_000);

const folder = mkdtempSync(join(tmpdir(), "understudy-truth-load-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = join(folder, "truth.jsonl");
const LIMIT_BYTES = Math.ceil(0.02 * 2 ** 20);

/** A client's answer: its id, the bytes of its body, and the number of tokens in its usage. */
interface ClientObservation {
  readonly id: string;
  readonly choices: number;
  readonly bytes: number;
  readonly tokens: number;
  readonly left: boolean;
}

const seen: ClientObservation[] = [];
let refused = 0;
let page: ParsedFamily[] = [];
let lines: TruthLine[] = [];
let names: string[] = [];

const sum = <T>(rows: readonly T[], of: (row: T) => number) => rows.reduce((total, row) => total + of(row), 0);
const ofType = <K extends TruthLine["type"]>(type: K) =>
  lines.filter((line) => line.type === type) as Extract<TruthLine, { type: K }>[];
const tokensOf = ({ runs }: RequestLine) => sum(runs, ([, steps, width = 1]) => steps * width);
const metric = (name: string, wanted: Record<string, string> = {}, sample = name) =>
  sum(
    page
      .find((family) => family.name === name)!
      .samples.filter(
        (row) =>
          row.name === sample && Object.entries(wanted).every(([key, value]) => new Map(row.labels).get(key) === value),
      ),
    ({ value }) => value,
  );

beforeAll(async () => {
  const pool = ["--num-gpu-blocks-override", "34", "--max-model-len", "512", "--max-num-seqs", "12", "-dp", "2"];
  const log = ["--truth-log", file, "--truth-log-max-mb", "0.02", "--truth-log-files", "100"];
  const server = await serve(["--served-model-name", "m", "--timing", "constant:ttft=4ms,itl=1ms", ...pool, ...log]);
  const ask = async (i: number) => {
    const id = `r${i}`;
    const stream = i % 3 !== 0;
    const chat = i % 4 === 1;
    const leaves = stream && i % 5 === 2;
    const n = i % 7 === 3 ? 2 : 1;
    const controller = new AbortController();
    const body = {
      model: i % 20 === 19 ? "another" : "m",
      ...(chat
        ? { messages: [{ role: "user", content: "Hello ".repeat(i % 30) }] }
        : { prompt: "Hello ".repeat(1 + (i % 90)) }),
      // A request that is disconnected is long, so that its answer does not end first on a slow host.
      max_tokens: leaves || i % 6 === 0 ? 300 : 20 + ((i * 13) % 200),
      ignore_eos: true,
      seed: i,
      n,
      stream,
      ...(stream ? { stream_options: { include_usage: true } } : {}),
      ...(i % 8 === 4 ? { stop: ["er"] } : {}),
    };
    const response = await fetch(`${server.url}/v1/${chat ? "chat/completions" : "completions"}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-request-id": id },
      body: JSON.stringify(body),
      signal: controller.signal,
    });
    if (!response.ok) {
      refused++;
      await response.text();
      return;
    }
    const prefix = chat ? `chatcmpl-${id}` : `cmpl-${id}-0`;
    if (leaves) {
      const reader = response.body!.getReader();
      await reader.read();
      controller.abort();
      seen.push({ id: prefix, choices: n, bytes: 0, tokens: 0, left: true });
      return;
    }
    const text = await response.text();
    const last = stream ? text.trimEnd().split("\n\n").at(-2)!.slice("data: ".length) : text;
    const { usage } = JSON.parse(last);
    seen.push({ id: prefix, choices: n, bytes: Buffer.byteLength(text), tokens: usage.completion_tokens, left: false });
  };
  const all: Promise<void>[] = [];
  for (let i = 0; i < 120; i++) {
    all.push(ask(i));
    if (i % 10 === 9) await Bun.sleep(15);
  }
  await Promise.all(all);
  const scrape = async () => parseExposition(await (await fetch(`${server.url}/metrics`)).text());
  await eventually(async () => {
    page = await scrape();
    return metric("vllm:num_requests_running") + metric("vllm:num_requests_waiting") === 0;
  });
  expect(await server.stop()).toBe(0);
  while (existsSync(names.length === 0 ? file : `${file}.${names.length}`))
    names.push(names.length === 0 ? file : `${file}.${names.length}`);
  names = names.toReversed();
  const text = names.map((name) => readFileSync(name, "utf8")).join("");
  writeFileSync(join(folder, "whole.jsonl"), text);
  lines = text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
});

test("the load has all intended kinds of requests", () => {
  expect(refused).toBe(6);
  expect(metric("vllm:num_preemptions_total")).toBeGreaterThan(5);
  for (const engine of ["0", "1"]) expect(metric("vllm:generation_tokens_total", { engine })).toBeGreaterThan(1000);
  expect(seen.filter(({ left }) => left).length).toBeGreaterThan(10);
  expect(ofType("request").some(({ reason }) => reason === "stop")).toBe(true);
});

describe("files", () => {
  test("no file exceeds the limit, each starts with its header, and no row is missing or split", () => {
    expect(names.length).toBeGreaterThan(5);
    for (const name of names) expect(statSync(name).size).toBeLessThanOrEqual(LIMIT_BYTES);
    const headers = ofType("header");
    expect(headers.map(({ file: number }) => number)).toEqual(names.map((_, i) => i));
    expect(new Set(headers.map(({ epochUs }) => epochUs)).size).toBe(1);
    for (const engine of [0, 1]) {
      const steps = ofType("step").filter((step) => step.engine === engine);
      expect(steps.map(({ step }) => step)).toEqual(steps.map((_, i) => i + 1));
      const orders = ofType("request")
        .filter((row) => row.engine === engine)
        .map(({ order }) => order);
      expect(orders.toSorted((a, b) => a - b)).toEqual(orders.map((_, i) => i));
    }
  });

  test("the last line has the right counts, and nothing was lost", () => {
    const end = lines.at(-1) as EndLine;
    const dropped = { run: 0, step: 0, request: 0 };
    expect(end).toEqual({ type: "end", steps: ofType("step").length, requests: ofType("request").length, dropped });
    expect(metric("understudy_truth_dropped_total")).toBe(0);
  });
});

describe("requests", () => {
  test("each choice has one row with its name, and refused requests have none", () => {
    const wanted = seen.flatMap(({ id, choices }) =>
      choices === 1 ? [id] : Array.from({ length: choices }, (_, i) => `${i}_${id}`),
    );
    expect(
      ofType("request")
        .map(({ id }) => id)
        .toSorted(),
    ).toEqual(wanted.toSorted());
  });

  test("bytes and tokens are those that the client got, and disconnected requests have a row with abort", () => {
    for (const { id, bytes, tokens, left } of seen) {
      const rows = ofType("request").filter((row) => row.id === id || row.id.endsWith(`_${id}`));
      if (left) {
        // An answer may end at the moment of the disconnect.
        for (const { reason } of rows) expect(["abort", "length", "stop"]).toContain(reason!);
        continue;
      }
      expect([id, sum(rows, (row) => row.bytes)]).toEqual([id, bytes]);
      expect([id, sum(rows, ({ outputTokens }) => outputTokens)]).toEqual([id, tokens]);
      for (const { reason } of rows) expect(["stop", "length"]).toContain(reason!);
    }
    expect(ofType("request").filter(({ reason }) => reason === "abort").length).toBeGreaterThan(10);
  });

  test("each token has its step, with its due time and its write", () => {
    const steps = new Map(ofType("step").map((step) => [`${step.engine}/${step.step}`, step]));
    for (const { engine, step, plannedUs, dueUs, writeStartUs, writeEndUs } of steps.values()) {
      expect([engine, step, plannedUs <= dueUs!, dueUs! <= writeStartUs!, writeStartUs! <= writeEndUs!]).toEqual([
        engine,
        step,
        true,
        true,
        true,
      ]);
    }
    const stepTokens = new Map<StepLine, number>();
    for (const row of ofType("request")) {
      let last = 0;
      for (const [first, count, width = 1] of row.runs) {
        expect(first).toBeGreaterThan(last);
        last = first + count - 1;
        for (let at = first; at <= last; at++) {
          const step = steps.get(`${row.engine}/${at}`)!;
          stepTokens.set(step, (stepTokens.get(step) ?? 0) + width);
        }
      }
      if (row.runs.length > 0) expect(row.prefillEndUs).toBe(steps.get(`${row.engine}/${row.runs[0]![0]}`)!.dueUs);
      expect(tokensOf(row)).toBeGreaterThanOrEqual(row.outputTokens);
      // In addition to the answer, the engine computes tokens before it learns of a stop string or a disconnect.
      expect(tokensOf(row) - row.outputTokens).toBeLessThanOrEqual(2);
      const times = [row.arrivalUs, row.queuedUs, row.scheduledUs, row.prefillEndUs, row.endUs].filter(
        (us) => us !== null,
      );
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      expect(row.preempted.length).toBe(row.preemptions);
    }
    for (const step of steps.values()) expect([step.step, stepTokens.get(step) ?? 0]).toEqual([step.step, step.tokens]);
  });
});

test.each(["0", "1"])("totals of rank %s equal the page", (engine) => {
  const mine = { engine };
  const steps = ofType("step").filter((row) => row.engine === Number(engine));
  const rows = ofType("request").filter((row) => row.engine === Number(engine));
  const started = rows.filter(({ runs }) => runs.length > 0);
  const whole = rows.filter(({ reason }) => reason !== "abort");
  expect(sum(steps, ({ tokens }) => tokens)).toBe(metric("vllm:generation_tokens_total", mine));
  expect(sum(rows, tokensOf)).toBe(metric("vllm:generation_tokens_total", mine));
  // vLLM counts a preemption with the request's next output. A request that ends before that loses the count.
  const preemptions = sum(rows, (row) => row.preemptions);
  const ran = rows.filter(({ reason }) => reason === "length");
  const counted = metric("vllm:num_preemptions_total", mine);
  expect(sum(steps, (step) => step.preemptions)).toBe(preemptions);
  expect(counted).toBeWithin(
    sum(ran, (row) => row.preemptions),
    preemptions + 1,
  );
  expect(sum(started, ({ promptTokens }) => promptTokens)).toBe(metric("vllm:prompt_tokens_total", mine));
  for (const reason of ["stop", "length"] as const) {
    const counted = metric("vllm:request_success_total", { ...mine, finished_reason: reason });
    expect(rows.filter((row) => row.reason === reason).length).toBe(counted);
  }
  const seconds = (name: string, part: "sum" | "count") =>
    metric(`vllm:${name}_seconds`, mine, `vllm:${name}_seconds_${part}`);
  expect(seconds("time_to_first_token", "count")).toBe(started.length);
  expect(seconds("time_to_first_token", "sum")).toBeCloseTo(
    sum(started, ({ prefillEndUs, arrivalUs }) => prefillEndUs! - arrivalUs) / 1e6,
    6,
  );
  expect(seconds("e2e_request_latency", "count")).toBe(whole.length);
  expect(seconds("e2e_request_latency", "sum")).toBeCloseTo(
    sum(whole, ({ endUs, arrivalUs }) => endUs! - arrivalUs) / 1e6,
    6,
  );
});

test("a replay of the log has the same arrivals, prompts and outputs, and writes a log of the same schema", () => {
  const again = join(folder, "again.jsonl");
  const argv = ["replay", join(folder, "whole.jsonl"), "--max-model-len", "512", "--truth-log", again, "-dp", "2"];
  const { exitCode, stderr } = Bun.spawnSync([process.execPath, main, ...argv]);
  expect([exitCode, stderr.toString()]).toEqual([0, ""]);
  const replayed = readFileSync(again, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as TruthLine);
  const shape = (all: readonly TruthLine[]) => {
    const rows = all.filter((line) => line.type === "request").filter(({ outputTokens }) => outputTokens > 0);
    const firstUs = Math.min(...rows.map(({ arrivalUs }) => arrivalUs));
    return rows
      .map(({ arrivalUs, promptTokens, outputTokens }) => [arrivalUs - firstUs, promptTokens, outputTokens].join())
      .toSorted();
  };
  expect(shape(replayed)).toEqual(shape(lines));
  const header = replayed[0] as HeaderLine;
  expect([header.schema, header.epochUs, header.engines]).toEqual([1, null, 2]);
  for (const type of ["header", "step", "request", "end"] as const) {
    // Simulated time is never late, and its writes take no time.
    const live = Object.keys(lines.find((line) => line.type === type)!).filter((name) => !SOMETIMES.includes(name));
    expect(Object.keys(replayed.find((line) => line.type === type)!)).toEqual(live);
  }
});

/** Keys that only late steps have, or steps whose writing took time. */
const SOMETIMES = ["cause", "rebasedUs", "writtenUs"];

/** Returns the fields that docs/reference/truth-log.md lists for each kind of line. */
function documented(): Map<string, string[]> {
  const text = readFileSync(new URL("../../docs/reference/truth-log.md", import.meta.url), "utf8");
  const sections = text
    .split(/^### /m)
    .filter((section) => /^`\w+`/.test(section))
    .map((section) => section.split("\n## ")[0]!);
  return new Map(
    sections.map((section) => {
      const rows = section.split("\n").filter((line) => line.startsWith("| `"));
      const fields = rows.flatMap((row) => [...row.split("|")[1]!.matchAll(/`(\w+)`/g)].map(([, name]) => name!));
      const listed = [...section.split("\n\n")[1]!.matchAll(/`(\w+)`/g)].map(([, name]) => name!);
      return [/`(\w+)`/.exec(section)![1]!, rows.length > 0 ? fields : listed];
    }),
  );
}

test("every line has the documented fields, no more and no less, each of its type", () => {
  const docs = documented();
  expect([...docs.keys()]).toEqual(["header", "step", "request", "fault", "wire", "end"]);
  const us = (value: unknown) => value === null || (typeof value === "number" && value >= 0);
  const count = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;
  const is: Record<string, (value: unknown) => boolean> = {
    id: (value) => typeof value === "string",
    requestId: (value) => value === null || typeof value === "string",
    cause: (value) => CAUSE_NAMES.includes(value as CauseName),
    late: (value) => {
      const { steps, us: lateUs, rebasedUs } = value as Record<string, unknown>;
      return count(steps) && us(lateUs) && us(rebasedUs);
    },
    reason: (value) => value === null || ["stop", "length", "abort", "error", "repetition"].includes(value as string),
    writtenUs: (value) => (value as unknown[]).length === 7 && (value as unknown[]).every(us),
    seed: count,
    engine: (value) => count(value) || typeof value === "object",
    runs: (value) => (value as unknown[][]).every((run) => run.length >= 2 && run.length <= 3 && run.every(count)),
    preempted: (value) =>
      (value as Record<string, unknown>[]).every((preemption) => us(preemption.us) && us(preemption.resumedUs)),
    dropped: (value) => ["run", "step", "request"].every((kind) => count((value as Record<string, unknown>)[kind])),
  };
  // With one process there is no worker. The counts are inside `dropped`.
  const absent: Record<string, string[]> = { header: ["worker"], end: ["run", "step", "request"] };
  for (const line of lines) {
    const { type, ...fields } = line;
    const missing = [...(absent[type] ?? []), ...SOMETIMES.filter((name) => type === "step" && !(name in fields))];
    const wanted = docs.get(type)!.filter((name) => !missing.includes(name));
    expect([type, Object.keys(fields).toSorted()]).toEqual([type, wanted.toSorted()]);
    for (const [name, value] of Object.entries(fields)) {
      const right = is[name] ?? (name.endsWith("Us") ? us : count);
      expect([name, value, right(value)]).toEqual([name, value, true]);
    }
  }
});
