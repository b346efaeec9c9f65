/** Tests that records are complete or absent and contain no secrets of headers, and that traffic does not depend on them. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parsePlan } from "../../../src/faults/parse.ts";
import type { Plan } from "../../../src/faults/plan/types.ts";
import { RecordFolder } from "../../../src/tools/proxy/record-folder.ts";
import { Recorder } from "../../../src/tools/proxy/recorder.ts";
import { eventually } from "../../server.ts";
import { CLOSES, type RawPair, rawPair, wire } from "./raw-pair.ts";

setDefaultTimeout(60_000);

const main = new URL("../../../src/main.ts", import.meta.url).pathname;
const root = mkdtempSync(join(tmpdir(), "understudy-record-files-"));
afterAll(() => rmSync(root, { recursive: true }));

let folders = 0;
const folder = () => join(root, `${folders++}`);
const recordsIn = (path: string) =>
  readdirSync(path)
    .toSorted()
    .map((name) => readFileSync(join(path, name), "utf8"));

const post = (prompt: string, lines = "") => {
  const body = JSON.stringify({ prompt });
  return (
    wire(
      `POST /v1/completions?sig=url-secret HTTP/1.1\nHost: x\n${lines}Content-Length: ${body.length}\nConnection: close\n\n`,
    ) + body
  );
};
const json = (body: string, lines = "") =>
  wire(
    `HTTP/1.1 200 OK\nContent-Type: application/json\n${lines}Content-Length: ${Buffer.byteLength(body, "latin1")}\n\n`,
  ) + body;

/** Runs `use` with a proxy that records to the folder `path`. */
async function record(
  answers: readonly string[],
  use: (pair: RawPair, path: string) => Promise<void>,
  planFor: (() => Plan) | null = null,
): Promise<void> {
  const path = folder();
  const reports: string[] = [];
  const recorder = new Recorder(path, (line) => reports.push(line));
  await rawPair(answers, (pair) => use({ ...pair, reports }, path), { recorder, planFor });
}

test("only listed headers of answers are recorded, and a link is recorded without query, fragment and user", async () => {
  const secrets = [
    "X-Auth",
    "x-session",
    "Set-Cookie",
    "Authorization",
    "X-Api-Key",
    "X-Anything",
    "WWW-Authenticate",
    "Link",
    "ETag",
    "Content-Location",
    "x-ratelimit-secret",
  ];
  const kept =
    "Retry-After: 7\nx-request-id: r1\nX-RateLimit-Remaining-Tokens: 5\nanthropic-ratelimit-requests-reset: 2030-01-01T00:00:00Z\nCache-Control: no-store\ncache-control: private\n";
  const lines = secrets.map((name) => `${name}: s3cret\n`).join("");
  const location = "Location: https://user:s3cret@bucket.example/a/b?X-Amz-Signature=s3cret&sig=s3cret#s3cret\n";
  await record([json("{}", lines + kept + location)], async ({ ask }, path) => {
    const { text } = await ask(post("x", "Authorization: Bearer s3cret\nX-Session: s3cret\n"));
    // The client gets every header, because the list only applies to records.
    expect(text).toContain(wire(lines + kept + location));
    const [written] = recordsIn(path);
    expect(written).not.toContain("s3cret");
    expect(written).not.toContain("url-secret");
    expect(JSON.parse(written!).answer.recorded.headers).toEqual({
      "content-type": "application/json",
      "retry-after": "7",
      "x-request-id": "r1",
      "x-ratelimit-remaining-tokens": "5",
      "anthropic-ratelimit-requests-reset": "2030-01-01T00:00:00Z",
      "cache-control": "no-store, private",
      location: "https://bucket.example/a/b",
    });
  });
});

test("an answer with a content coding or without UTF-8 is forwarded and not recorded, with a line", async () => {
  await record([json("gz", "Content-Encoding: gzip\n"), json("\xff\xfe")], async ({ ask, reports }, path) => {
    expect((await ask(post("a"))).text).toEndWith("\r\n\r\ngz");
    expect((await ask(post("b"))).text).toEndWith("\r\n\r\n\xff\xfe");
    expect([reports, recordsIn(path)]).toEqual([
      [
        "not recorded: /v1/completions, its body is in the content coding gzip",
        "not recorded: /v1/completions, its body is not UTF-8",
      ],
      [],
    ]);
  });
});

test("an answer without events is recorded as one event, and an incomplete answer is marked as broken", async () => {
  const chunks = wire(
    "HTTP/1.1 200 OK\nContent-Type: application/json\nTransfer-Encoding: chunked\n\n3\n{\n\n\n1\n}\n0\n\n",
  ).replace("{\r\n\r\n", "{\n\n");
  const broken = wire(`HTTP/1.1 200 OK\nContent-Length: 9\n\nhalf${CLOSES}`);
  await record([chunks, broken], async ({ ask }, path) => {
    await ask(post("a"));
    await ask(post("b"));
    const recorded = recordsIn(path).map((text) => JSON.parse(text).answer.recorded);
    expect(
      recorded.map(({ broken: isBroken, events }) => [isBroken, events.map(([, text]: [number, string]) => text)]),
    ).toEqual([
      [false, ["{\n\n}"]],
      [true, ["half"]],
    ]);
  });
});

test("on a full disk no partial record is left, consecutive failures give one line, and later records are written", () => {
  const path = folder();
  const reports: string[] = [];
  const records = new RecordFolder(path, (line) => reports.push(line));
  const full = () => symlinkSync("/dev/full", join(path, ".000001.json.partial"));
  const failed: boolean[] = [];
  for (let at = 0; at < 3; at++) {
    full();
    failed.push(records.write("record"));
    expect(readdirSync(path)).toEqual([]);
  }
  expect(failed).toEqual([false, false, false]);
  expect(reports).toHaveLength(1);
  expect(reports[0]).toContain(`cannot write ${join(path, "000001.json")} (ENOSPC`);
  expect(records.write("whole")).toBe(true);
  expect(reports.slice(1)).toEqual(["records are written again; 3 exchanges were not recorded"]);
  rmSync(path, { recursive: true });
  expect(records.write("no folder")).toBe(false);
  records.close();
  expect(reports.at(-1)).toBe(`4 exchanges were not recorded, because ${path} could not be written`);
});

test("a proxy whose disk is full forwards everything, keeps no partial record, and reports the disk as the cause", async () => {
  const answers = Array.from({ length: 5 }, (_, at) => json(JSON.stringify(at % 2 === 0 ? "x".repeat(8000) : "small")));
  await rawPair(answers, async ({ host, ask: _, ...pair }) => {
    const path = folder();
    const ready = `${path}-ready.json`;
    const words = [main, "proxy", "--to", `http://${host}`, "--port", "0", "--ready-file", ready, "--record", path];
    // The process may only write files up to 4 KiB, so a larger record fails with EFBIG in its middle.
    const limited = ["bash", "-c", 'ulimit -f 4; exec "$0" "$@"', process.execPath, ...words];
    const proxy = Bun.spawn(limited, { stdout: "ignore", stderr: "pipe" });
    await eventually(() => readdirSync(root).includes(`${path.slice(root.length + 1)}-ready.json`), 2000);
    const { url } = JSON.parse(readFileSync(ready, "utf8"));
    for (let at = 0; at < answers.length; at++) {
      const answer = await fetch(`${url}/v1/completions`, { method: "POST", body: `{"prompt":"${at}"}` });
      expect(await answer.json()).toBe(at % 2 === 0 ? "x".repeat(8000) : "small");
    }
    proxy.kill("SIGTERM");
    expect(await proxy.exited).toBe(0);
    const reports = await new Response(proxy.stderr).text();
    expect(recordsIn(path).map((text) => JSON.parse(text).answer.recorded.events[0][1])).toEqual([
      '"small"',
      '"small"',
    ]);
    expect(reports.match(/cannot write .*\/000001\.json \(EFBIG/g)).toHaveLength(1);
    expect(reports).toContain("3 exchanges were not recorded, because");
    expect(reports).not.toContain(host);
    expect(pair.seen).toHaveLength(5);
  });
});

const EARLY = "not recorded: /v1/completions, the client left or a plan ended the answer early";

test("if the client disconnects or a plan ends the answer early, no record is written", async () => {
  const stream = wire(
    "HTTP/1.1 200 OK\nContent-Type: text/event-stream\nTransfer-Encoding: chunked\n\nb\ndata: 1\n\n\n",
  );
  await record([stream], async ({ ask, reports }, path) => {
    // The server never ends its answer, and the client disconnects after a part of it.
    await ask(post("x"), 100);
    await eventually(() => reports.length === 1);
    expect([reports, recordsIn(path)]).toEqual([[EARLY], []]);
  });
  await record(
    [`${stream}${wire("b\ndata: 2\n\n\n")}`],
    async ({ ask, reports }, path) => {
      const { text } = await ask(post("x"));
      expect(text).toContain("data: 1");
      await eventually(() => reports.length === 1);
      expect([reports, recordsIn(path)]).toEqual([[EARLY], []]);
    },
    () => parsePlan("E7@e1"),
  );
});

test("a plan leaves binary answers and answers of more than 8 MiB unchanged", async () => {
  const binary = `${json("\x00\xff\x80\xfe", "X-A: 1\n")}`.replace("application/json", "audio/wav");
  const planFor = () => parsePlan("H4");
  const chunk = "\xff".repeat(2 ** 20);
  const long = `${wire("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n")}${`100000\r\n${chunk}\r\n`.repeat(9)}0\r\n\r\n`;
  await rawPair(
    [binary, long],
    async ({ ask }) => {
      expect((await ask(post("x"))).text).toEndWith("\x00\xff\x80\xfe");
      const { text } = await ask(post("y"));
      expect(text).toStartWith("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nconnection: close\r\n");
      expect(text.match(/\xff/g)?.length).toBe(9 * 2 ** 20);
    },
    { planFor },
  );
});
