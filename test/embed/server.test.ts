/** Tests a server of the library in this process of Bun. node.test.ts runs the same scenarios in Node. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "../../src/embed/bun.ts";
import type { ServerOptions } from "../../src/embed/server-face.ts";
import { eventually } from "../server.ts";
import { SCENARIOS } from "./scenarios.ts";

test.each(SCENARIOS)("the scenario has the expected result: %s", async (_, scenario, expected) => {
  expect(await scenario(createServer)).toEqual(expected);
});

test("`ready` rejects if the truth log cannot be written", async () => {
  const server = createServer({ truthLog: "/nowhere/truth.jsonl" });
  await expect(server.ready).rejects.toThrow("truthLog /nowhere/truth.jsonl: there is no folder /nowhere");
});

const folder = mkdtempSync(join(tmpdir(), "understudy-errors-"));
const bad = join(folder, "bad.txt");
writeFileSync(bad, "nonsense {[");
afterAll(() => rmSync(folder, { recursive: true }));

test.each<[ServerOptions, string]>([
  [{ fixtures: "/no/dir" }, "fixtures /no/dir: cannot be read (ENOENT); a folder"],
  [{ fixtures: bad }, `fixtures ${bad}: cannot be read (ENOTDIR); a folder`],
  [{ script: "/no/s.json" }, "script /no/s.json: cannot be read (ENOENT)"],
  [{ script: bad }, `script ${bad}: not JSON: `],
  [{ dataset: "/no/d.sqlite" }, "dataset /no/d.sqlite: cannot be read (ENOENT)"],
  [{ dataset: bad }, `dataset ${bad}: not a database`],
  [{ tokenizer: "/no/t" }, "tokenizer /no/t: tokenizer.json cannot be read (ENOENT)"],
  [{ faultPlan: "/no/f.yaml" }, "faultPlan /no/f.yaml: cannot be read (ENOENT)"],
  [{ faultPlan: bad }, `faultPlan ${bad}: line 1: `],
  [{ truthLog: folder }, `truthLog ${folder}: it is a folder`],
  [{ sslCertfile: "/no/c.pem" }, "sslCertfile /no/c.pem: cannot be read (ENOENT)"],
  [{ sslCertfile: bad }, `sslCertfile ${bad}: is not a certificate in PEM format`],
  [{ sslCertfile: bad, sslKeyfile: "/no/k.pem" }, "sslKeyfile /no/k.pem: cannot be read (ENOENT)"],
  [{ outputTokens: "trace:/no/t.jsonl" }, 'outputTokens trace: cannot read "/no/t.jsonl" (ENOENT)'],
  [{ outputTokens: `trace:${bad}` }, `outputTokens trace: ${bad}: its format is not recognised`],
  [{ host: "256.1.1.1" }, "host 256.1.1.1: cannot listen there"],
])("an unreadable file or unusable address is reported with its option: %j", async (options, why) => {
  const server = createServer({ timing: "none", ...options });
  await expect(server.ready).rejects.toThrow(why);
});

test("a port in use is reported with its option", async () => {
  await using taken = await createServer({ timing: "none" }).ready;
  const port = Number(new URL(taken.url).port);
  for (const name of ["port", "metricsPort"] as const) {
    const why = `${name} ${port}: 127.0.0.1:${port} is in use`;
    const refused = createServer({ timing: "none", [name]: port }).ready.catch(({ message, code }) => [message, code]);
    expect(await refused).toEqual([expect.stringContaining(why), "EADDRINUSE"]);
  }
});

test("a server checks the engine's options, and refuses a configuration file", () => {
  expect(() => createServer({ maxNumSeqs: 0 })).toThrow("maxNumSeqs: takes");
  expect(() => createServer({ bug: ["worker-saw-tooth"] })).toThrow("--workers of at least 2");
  expect(() => createServer({ config: "x.yaml" } as ServerOptions)).toThrow("config: no such option");
});

test("a server in this process becomes ready, answers, and is gone after close()", async () => {
  const options = { model: "my/model", timing: "none", apiKey: ["secret"], outputTokens: "constant:4" };
  const server = createServer({ ...options, devMode: true });
  expect(() => server.url).toThrow("await server.ready");
  expect(await server.ready).toBe(server);
  expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect((await fetch(`${server.url}/v1/models`)).status).toBe(401);
  const models = await fetch(`${server.url}/v1/models`, { headers: { authorization: "Bearer secret" } });
  expect(await models.json()).toMatchObject({ data: [{ id: "my/model" }] });
  expect((await fetch(`${server.url}/is_paused`)).status).toBe(200);
  const answer = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { authorization: "Bearer secret", "content-type": "application/json" },
    body: JSON.stringify({ model: "my/model", prompt: "Hello", max_tokens: 50 }),
  });
  expect(await answer.json()).toMatchObject({ choices: [{ finish_reason: "stop" }], usage: { completion_tokens: 4 } });
  const second = createServer({ port: Number(new URL(server.url).port) });
  await expect(second.ready).rejects.toMatchObject({ code: "EADDRINUSE" });
  await second.close();
  await server.close();
  await server.close();
  await eventually(() =>
    fetch(server.url).then(
      () => false,
      () => true,
    ),
  );
});
