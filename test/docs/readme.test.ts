/**
 * Tests the statements of the README and of the first pages that it links: commands, servers with their curl lines and APIs,
 * paths and timings.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import manifest from "../../package.json";
import { BENCHES } from "../../scripts/bench.ts";
import { SIZED } from "../../scripts/test-sizes.ts";
import { ROLE_NAMES, type RoleName } from "../../src/app/config/roles.ts";
import { type HostedServer, hosted, hostedAs } from "../hosted.ts";
import { type Server, type ServerHandle, serve } from "../server.ts";

setDefaultTimeout(30_000);

const root = new URL("../../", import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), "utf8");
const readme = read("README.md");
/** The part that is visible without scrolling. */
const firstScreen = readme.split("\n").slice(0, 40).join("\n");

/** A server without options, as the first command of the README starts it. */
let plain: Server;
let dev: HostedServer;
beforeAll(async () => {
  [plain, dev] = await Promise.all([serve(), hosted(["--timing", "none"], { VLLM_SERVER_DEV_MODE: "1" })]);
});
afterAll(async () => {
  await Promise.all([plain.stop(), dev.stop()]);
});

/** The curl lines of the first screen, in their order. */
const curlLines = firstScreen.split("\n").filter((line) => line.startsWith("curl "));

/** Runs a curl line with `url` in place of its server, and returns the standard output. */
async function answerOf(line: string, url: string): Promise<string> {
  const sent = line.replace(/http:\/\/127\.0\.0\.1:\d+/, url);
  const child = Bun.spawn(["sh", "-c", `${sent} --silent --show-error --fail`], { stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  expect([code, err]).toEqual([0, ""]);
  return out;
}

test("the first curl line streams from a server started without options", async () => {
  expect(curlLines[0]).toContain("http://127.0.0.1:8000/");
  const out = await answerOf(curlLines[0]!, plain.url);
  const frames = out.trimEnd().split("\n\n");
  expect(frames.at(-1)).toBe("data: [DONE]");
  const chunks = frames.slice(0, -1).map((frame) => JSON.parse(frame.slice("data: ".length)));
  expect(chunks[0].choices[0].delta.role).toBe("assistant");
  expect(["length", "stop"]).toContain(chunks.at(-1).choices[0].finish_reason);
  expect(chunks.map(({ choices }) => choices[0].delta.content ?? "").join("").length).toBeGreaterThan(0);
});

test("the curl line is the one that the server prints", () => {
  const printed = /try\s+(curl .*)/.exec(plain.output())![1]!;
  expect(firstScreen).toContain(printed.replace(plain.url, "http://127.0.0.1:8000"));
});

/** A row of the table of servers. */
interface ServerRow {
  readonly role: keyof typeof APIS;
  readonly flags: readonly string[];
  readonly port: string;
  readonly apis: string;
}

/** The rows of the table of servers on the first screen. */
const serverRows: readonly ServerRow[] = [
  ...firstScreen.matchAll(/^\| [^|]+ \| `\.\/bin\/understudy serve ([^`|]*)` \| ([^|]+) \|$/gm),
].map(([, words = "", apis = ""]) => {
  const flags = words.split(" ");
  const after = (name: RegExp) => flags[flags.findIndex((flag) => name.test(flag)) + 1]!;
  const role = words.includes("--role ") ? after(/^--role$/) : "vllm";
  return { role: role as keyof typeof APIS, flags, port: after(/^--(http-)?port$/), apis };
});

/** APIs that the table on the first screen of the README must name for each server. */
const APIS: Readonly<Record<Exclude<RoleName, "vllm-engine">, readonly string[]>> = {
  vllm: ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/metrics"],
  triton: ["KServe", "gRPC", "/v2/models/NAME/infer", "/generate", "/generate_stream", "/v1/chat/completions"],
  "trtllm-serve": ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/metrics"],
};

test("the first screen names each server once, with its APIs", () => {
  // `serve --role vllm-engine` is missing from this table, because users call the API of the vLLM front end before it.
  expect([...serverRows.map(({ role }) => role), "vllm-engine"].toSorted()).toEqual(ROLE_NAMES.toSorted());
  for (const { role, apis } of serverRows) {
    const missing = APIS[role].filter((api) => !new RegExp(`${api}(?![\\w/])`).test(apis));
    expect([role, missing]).toEqual([role, []]);
  }
});

/** Routes below /v1 that the table need not name, because they generate no text. */
const NO_GENERATION = ["/v1/kv_cache_hints"];

test("each server of the table starts, answers its curl line, and has no other API below /v1 than the table names", async () => {
  for (const { role, flags, port, apis } of serverRows) {
    const all = role === "triton" ? [...flags, "--grpc-port", "0", "--metrics-port", "0"] : flags;
    const server = await hostedAs(all.map((word) => (word === port ? "0" : word)));
    const line = curlLines.find((curl) => curl.includes(`:${port}/`))!;
    expect(await answerOf(line, server.url)).toMatch(/"(text|text_output|content)":"\w/);
    // Triton has no such document.
    if (role !== "triton") {
      const { paths } = (await (await fetch(`${server.url}/openapi.json`)).json()) as { paths: Record<string, object> };
      const unnamed = Object.entries(paths)
        .filter(([path, methods]) => path.startsWith("/v1/") && "post" in methods && !NO_GENERATION.includes(path))
        .filter(([path]) => !apis.includes(`\`/v1/${path.split("/")[2]}`));
      expect(unnamed.map(([path]) => `${role}: ${path}`)).toEqual([]);
    }
    await server.stop();
  }
});

test("the README has at most 130 lines, and a picture", () => {
  expect(readme.trimEnd().split("\n").length).toBeLessThanOrEqual(130);
  expect(readme).toMatch(/!\[[^\]]+\]\(docs\/[\w-]+\.png\)/);
});

test("no script of package.json runs before or after another because of its name, as prepack would before pack", () => {
  const names = Object.keys(manifest.scripts);
  expect(names.filter((name) => names.includes(`pre${name}`) || names.includes(`post${name}`))).toEqual([]);
});

test("package.json has at most twelve scripts, besides prepack, which only npm runs", () => {
  expect(Object.keys(manifest.scripts).filter((name) => name !== "prepack").length).toBeLessThanOrEqual(12);
});

test("every script, bench and test of two sizes that the pages and the code name exists, and benches.md names every bench", () => {
  const files = Bun.spawnSync(
    ["git", "grep", "-hoE", "bun run (bench |test )?[a-z][a-z-]*", "--", ".", ":!CHANGELOG.md"],
    {
      cwd: root.pathname,
    },
  );
  const unknown = [...new Set(files.stdout.toString().trim().split("\n"))].filter((line) => {
    const [script = "", name] = line.slice("bun run ".length).split(" ");
    if (!(script in manifest.scripts)) return script !== "src"; // `bun run src/main.ts` is a file
    if (script === "bench") return name !== undefined && !(name in BENCHES);
    return script === "test" && name !== undefined && name !== "quick" && !(name in SIZED);
  });
  expect(unknown).toEqual([]);
  const page = read("docs/internals/benches.md");
  expect(Object.keys(BENCHES).filter((name) => !page.includes(`bench ${name}`))).toEqual([]);
});

const BODIES: Readonly<Record<string, object>> = {
  "/v1/chat/completions": { messages: [{ role: "user", content: "Hello" }], max_tokens: 1 },
  "/v1/completions": { prompt: "Hello", max_tokens: 1 },
  "/v1/responses": { input: "Hello", max_output_tokens: 1 },
  "/v1/messages": { messages: [{ role: "user", content: "Hello" }], max_tokens: 1 },
  "/v1/messages/count_tokens": { messages: [{ role: "user", content: "Hello" }] },
  "/tokenize": { prompt: "Hello" },
  "/detokenize": { tokens: [1, 2] },
};
test("every path of the table in docs/servers/vllm.md answers 200, those of dev mode only in dev mode", async () => {
  const table = /\| Path \| What \|\n\|.*\n((?:\|.*\n)+)/.exec(read("docs/servers/vllm.md"))![1]!;
  const routes = table
    .trimEnd()
    .split("\n")
    .flatMap((line) => {
      const [, cell = "", rest = ""] = line.split("|");
      let method = "";
      return [...cell.matchAll(/`(?:(GET|POST) )?(\/[^`]*)`/g)].map(([, ownMethod, path]) => {
        method = ownMethod ?? method;
        return { method, path: path!, devOnly: rest.includes("VLLM_SERVER_DEV_MODE") };
      });
    });
  expect(routes.length).toBeGreaterThan(15);
  const models = await (await fetch(`${plain.url}/v1/models`)).json();
  const model = (models as { data: { id: string }[] }).data[0]!.id;
  const ask = async ({ url }: ServerHandle, method: string, path: string) => {
    const body = BODIES[path] && { model, ...BODIES[path] };
    const init = body && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    const response = await fetch(url + path, { method, ...init });
    await response.arrayBuffer();
    return [method, path, response.status];
  };
  for (const { method, path, devOnly } of routes) {
    // The order matters: /pause stops the engine, and the next path resumes it.
    expect(await ask(dev, method, path)).toEqual([method, path, 200]);
    expect(await ask(plain, method, path)).toEqual([method, path, devOnly ? 404 : 200]);
  }
});

test("the timings of the table in docs/explanation/timing.md are accepted", async () => {
  const table = /\| `--timing` \|.*\n\|.*\n((?:\|.*\n)+)/.exec(read("docs/explanation/timing.md"))![1]!;
  const [preset, ...forms] = table
    .trimEnd()
    .split("\n")
    .map((line) => /^\| (?:.*default )?`([^`]+)`/.exec(line)?.[1] ?? /default `([^`]+)`/.exec(line)![1]!);
  expect(forms).toHaveLength(3);
  for (const timing of [preset!, ...forms]) {
    const server = await serve(["--timing", timing]);
    expect(server.output()).toMatch(new RegExp(`timing +(preset )?${timing.split(":")[0]}`));
    await server.stop();
  }
});
