/** Do the README and the pages it begins with say what is there? Its curl line, commands, paths and timings are tried. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import manifest from "../../package.json";
import { type Hosted, hosted } from "../hosted.ts";
import { type Listening, type Server, serve } from "../server.ts";

setDefaultTimeout(30_000);

const root = new URL("../../", import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), "utf8");
const readme = read("README.md");
/** As far as one sees without scrolling. */
const firstScreen = readme.split("\n").slice(0, 40).join("\n");

/** `plain` is started without options, as the first command does it. */
let plain: Server;
let dev: Hosted;
beforeAll(async () => {
  [plain, dev] = await Promise.all([serve(), hosted(["--timing", "none"], { VLLM_SERVER_DEV_MODE: "1" })]);
});
afterAll(async () => {
  await Promise.all([plain.stop(), dev.stop()]);
});

test("the first screen has one curl line, and it streams from a server started without options", async () => {
  const lines = firstScreen.split("\n").filter((line) => line.startsWith("curl "));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain("http://127.0.0.1:8000/");
  const line = lines[0]!.replace("http://127.0.0.1:8000", plain.url);
  const child = Bun.spawn(["sh", "-c", `${line} --silent --show-error --fail`], { stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  expect([code, err]).toEqual([0, ""]);
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

test("it has at most 150 lines, and a picture", () => {
  expect(readme.split("\n").length).toBeLessThanOrEqual(150);
  expect(readme).toMatch(/!\[[^\]]+\]\(docs\/[\w-]+\.png\)/);
});

test("no script of package.json is run before or behind another by its name, as prepack would be before pack", () => {
  const names = Object.keys(manifest.scripts);
  expect(names.filter((name) => names.includes(`pre${name}`) || names.includes(`post${name}`))).toEqual([]);
});

test("every command of package.json that README and benches.md name exists, and every bench is named", () => {
  const named = new Set(
    [...(readme + read("docs/benches.md")).matchAll(/\bbun run ([\w:-]+)/g)].map(([, name]) => name!),
  );
  expect([...named].filter((name) => !(name in manifest.scripts))).toEqual([]);
  expect(Object.keys(manifest.scripts).filter((name) => name.startsWith("bench:") && !named.has(name))).toEqual([]);
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
test("every path of the table in docs/serve.md answers with 200, those of dev mode in dev mode only", async () => {
  const table = /\| Path \| What \|\n\|.*\n((?:\|.*\n)+)/.exec(read("docs/serve.md"))![1]!;
  const routes = table
    .trimEnd()
    .split("\n")
    .flatMap((line) => {
      const [, cell = "", rest = ""] = line.split("|");
      let method = "";
      return [...cell.matchAll(/`(?:(GET|POST) )?(\/[^`]*)`/g)].map(([, given, path]) => {
        method = given ?? method;
        return { method, path: path!, devOnly: rest.includes("VLLM_SERVER_DEV_MODE") };
      });
    });
  expect(routes.length).toBeGreaterThan(15);
  const models = await (await fetch(`${plain.url}/v1/models`)).json();
  const model = (models as { data: { id: string }[] }).data[0]!.id;
  const ask = async ({ url }: Listening, method: string, path: string) => {
    const body = BODIES[path] && { model, ...BODIES[path] };
    const init = body && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    const response = await fetch(url + path, { method, ...init });
    await response.arrayBuffer();
    return [method, path, response.status];
  };
  for (const { method, path, devOnly } of routes) {
    // One pauses and the next resumes.
    expect(await ask(dev, method, path)).toEqual([method, path, 200]);
    expect(await ask(plain, method, path)).toEqual([method, path, devOnly ? 404 : 200]);
  }
});

test("the timings of the table in docs/timing.md are taken", async () => {
  const table = /\| `--timing` \|.*\n\|.*\n((?:\|.*\n)+)/.exec(read("docs/timing.md"))![1]!;
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
