/**
 * Checks that a request cannot write arbitrary text into the log, or create label values in the metrics. For any id, model,
 * path and header there are as many lines as events, without control characters, and no new series.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync } from "node:fs";
import fc from "fast-check";
import { type App, createApp } from "../../src/app/create-app.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { times } from "../size.ts";

setDefaultTimeout(60_000);

const lines: string[] = [];
let app: App;
beforeAll(async () => {
  const flags = ["--served-model-name", "m", "--timing", "none", "--port", "0", "--enable-log-requests"];
  const resolved = resolveServeConfig([...flags, "--disable-log-stats"], {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  app = await createApp(resolved.config, { log: (line) => void lines.push(line) });
});
afterAll(() => app.close(0));

/** Characters that a terminal, a log collector or an editor would interpret. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
const nasty = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.constantFrom(
    'x\nINFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK',
    "\u001b[2J\u001b[31mred",
    "\r\n\r\n",
    "../../../etc/passwd",
    '"} 1\nunderstudy_requests_total{outcome="stop',
    "\u2028\u202e\u0085\u0000",
    "%0a%0d",
    "y".repeat(5000),
  ),
);
const post = (path: string, body: string, headers: Record<string, string> = {}) =>
  fetch(app.url + path, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });

/** Returns the names and labels of all series, without values. */
async function series(): Promise<string[]> {
  const page = await (await fetch(`${app.url}/metrics/all`)).text();
  return page
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => line.slice(0, line.lastIndexOf(" ")));
}

test("ids, models, stop strings and salts are escaped in log lines", async () => {
  await fc.assert(
    fc.asyncProperty(nasty, nasty, nasty, async (id, model, other) => {
      lines.length = 0;
      const answers = await Promise.all([
        post(
          "/v1/completions",
          JSON.stringify({ model: "m", prompt: "x", max_tokens: 1, request_id: id, stop: [other] }),
        ),
        post(
          "/v1/chat/completions",
          JSON.stringify({ model, messages: [{ role: other, content: "x" }], max_tokens: 1 }),
        ),
        post(
          "/v1/completions",
          JSON.stringify({ model: "m", prompt: "x", max_tokens: 1, user: id, cache_salt: other }),
        ),
      ]);
      await Promise.all(answers.map((answer) => answer.text()));
      const received = lines.filter((line) => line.startsWith("Received request ")).length;
      expect(lines.length - received).toBe(3); // one line per HTTP request
      for (const line of lines) {
        expect(line).not.toMatch(UNSAFE);
        expect(line.length).toBeLessThan(8000);
      }
    }),
    { numRuns: times(60) },
  );
});

test("paths, methods and headers are escaped in log lines", async () => {
  await fc.assert(
    fc.asyncProperty(
      nasty,
      fc.constantFrom("GET", "POST", "PUT", "DELETE", "PATCH"),
      nasty,
      async (path, method, header) => {
        lines.length = 0;
        const value = header.replace(/[^\x20-\x7e\xa0-\xff]/g, "");
        const headers = { "x-request-id": value, "user-agent": value };
        await (
          await fetch(`${app.url}/${encodeURIComponent(path.toWellFormed())}?${encodeURI(path.toWellFormed())}`, {
            method,
            headers,
          })
        ).text();
        expect(lines).toHaveLength(1);
        expect(lines[0]).not.toMatch(UNSAFE);
      },
    ),
    { numRuns: times(60) },
  );
});

test("no request creates a series or a file", async () => {
  const here = () => readdirSync(".").toSorted();
  await post("/v1/completions", JSON.stringify({ model: "m", prompt: "x", max_tokens: 1 }));
  for (const method of ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
    await fetch(`${app.url}/nothing`, { method });
  const [before, files] = [await series(), here()];
  await fc.assert(
    fc.asyncProperty(nasty, nasty, async (name, other) => {
      const body = { model: name, prompt: "x", max_tokens: 1, request_id: other, user: other, cache_salt: other };
      await (await post("/v1/completions", JSON.stringify(body))).text();
      await (await post("/v1/completions", JSON.stringify({ ...body, model: "m" }))).text();
      await (await fetch(`${app.url}/${encodeURIComponent(name.toWellFormed())}`)).text();
    }),
    { numRuns: times(40) },
  );
  // Series of the first answer with a status may be new.
  const unknown = (await series()).filter((sample) => !before.includes(sample));
  expect(unknown.filter((sample) => !/^http_\w+\{(?:[a-z]+="[\w/.+]*",?)*\}$/.test(sample))).toEqual([]);
  expect(here()).toEqual(files);
});
