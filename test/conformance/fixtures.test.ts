/** Checks that a live server answers as its folder of fixtures currently says, and the priority of other orders. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type HostedServer, hosted } from "../hosted.ts";
import { main } from "../program.ts";
import { eventually, type ServerHandle, serve } from "../server.ts";

setDefaultTimeout(60_000);

const EXAMPLES = new URL("../../examples/fixtures", import.meta.url).pathname;
const FLAGS = ["--timing", "none", "--served-model-name", "m", "echo", "--disable-uvicorn-access-log"];

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "understudy-fixtures-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

interface Body {
  readonly choices: readonly {
    readonly text?: string;
    readonly message?: { readonly content: string };
    readonly finish_reason: string;
  }[];
}
function post(
  server: ServerHandle,
  path: string,
  body: object,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(server.url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
}
async function ask(
  server: ServerHandle,
  path: string,
  body: object,
  headers?: Record<string, string>,
): Promise<string> {
  const { choices } = (await (await post(server, path, body, headers)).json()) as Body;
  const content = choices[0]!.text ?? choices[0]!.message!.content;
  return `${content} (${choices[0]!.finish_reason})`;
}
const chat = (server: ServerHandle, content: string, more: object = {}, headers?: Record<string, string>) =>
  ask(server, "/v1/chat/completions", { messages: [{ role: "user", content }], max_tokens: 50, ...more }, headers);

describe("the folder of examples", () => {
  let server: HostedServer;
  beforeAll(async () => {
    server = await hosted([...FLAGS, "--fixtures", EXAMPLES]);
  });
  afterAll(() => server.stop());

  test("fixtures match the texts of the user and of the system", async () => {
    expect(await chat(server, "How is the WEATHER in Rome?")).toBe("It is 21 °C and sunny. (stop)");
    const messages = [
      { role: "system", content: "You are a pirate." },
      { role: "user", content: "The weather?" },
    ];
    expect(await ask(server, "/v1/chat/completions", { messages })).toBe("Arr, a storm be coming. (stop)");
  });

  test("fixtures match by path, and by model", async () => {
    const prompt = "Once upon a time";
    expect(await ask(server, "/v1/completions", { prompt })).toBe("there was a server that had no GPU (length)");
    expect(await chat(server, "Say this", { model: "echo" })).toBe("Say this (stop)");
    expect(await ask(server, "/v1/completions", { model: "echo", prompt: [13225, 2375] })).toBe("Hello world (stop)");
  });

  test("errors come the stated number of times, with the header, or as whole bodies", async () => {
    const body = { prompt: "x", user: "busy", max_tokens: 1 };
    const answers: Response[] = [];
    for (let i = 0; i < 3; i++) answers.push(await post(server, "/v1/completions", body));
    expect(answers.map(({ status }) => status)).toEqual([429, 429, 200]);
    expect(answers[0]!.headers.get("retry-after")).toBe("1");
    expect(await answers[0]!.json()).toEqual({
      error: { message: "Too many requests", type: "Too Many Requests", param: null, code: 429 },
    });
    const gateway = await post(server, "/v1/completions", { prompt: "x" }, { "X-Scenario": "bad-gateway" });
    expect([gateway.status, gateway.headers.get("content-type"), await gateway.text()]).toEqual([
      502,
      "text/html",
      "<h1>502 Bad Gateway</h1>",
    ]);
  });

  test("Anthropic's dialect gets texts, errors in its form, and whole bodies unchanged", async () => {
    const message = (content: string) => ({ model: "m", max_tokens: 50, messages: [{ role: "user", content }] });
    const answer = (await (await post(server, "/v1/messages", message("the weather"))).json()) as object;
    expect(answer).toMatchObject({
      content: [{ type: "text", text: "It is 21 °C and sunny." }],
      stop_reason: "end_turn",
    });
    const failed = await post(server, "/v1/messages", message("Say that you are overloaded"));
    expect([failed.status, await failed.json()]).toEqual([
      503,
      { type: "error", error: { type: "overloaded_error", message: "Come back later" } },
    ]);
    const gateway = await post(server, "/v1/messages", message("x"), { "X-Scenario": "bad-gateway" });
    expect([gateway.status, await gateway.text()]).toEqual([502, "<h1>502 Bad Gateway</h1>"]);
  });

  test("a failed engine gives 500 for a whole answer, and an error frame in a started stream", async () => {
    const body = { messages: [{ role: "user", content: "Fail after a start" }] };
    expect((await post(server, "/v1/chat/completions", body)).status).toBe(500);
    const frames = await (await post(server, "/v1/chat/completions", { ...body, stream: true })).text();
    expect(frames).toContain('"content":"Hello"');
    expect(frames).toContain('data: {"error":{"message":"Internal server error"');
  });

  test("requests without a match, and other routes, are answered as usual", async () => {
    expect(await chat(server, "Well?", { max_tokens: 3 })).toEndWith("(length)");
    expect((await post(server, "/v1/completions", { prompt: "x", n: 0, user: "busy" })).status).toBe(400);
  });

  test("a stream has one chunk per step", async () => {
    const body = { messages: [{ role: "user", content: "weather" }], stream: true, return_token_ids: true };
    const frames = (await (await post(server, "/v1/chat/completions", body)).text()).split("\n\n");
    const deltas = frames
      .filter((frame) => frame.startsWith("data: {"))
      .map((frame) => JSON.parse(frame.slice("data: ".length)).choices[0].delta.content)
      .filter(Boolean);
    expect(deltas.length).toBeGreaterThan(5);
    expect(deltas.join("")).toBe("It is 21 °C and sunny.");
  });
});

test("the priority is header, body, fixtures, scripts without a name, ordinary answer", async () => {
  const ordered = join(folder, "order");
  cpSync(EXAMPLES, ordered, { recursive: true });
  writeFileSync(join(ordered, "0.yaml"), "match: { user: play }\nanswer: { play: greeting }");
  const scripts = join(folder, "scripts.json");
  const script = (id: number) => ({ sequences: [{ steps: [[id]] }] });
  writeFileSync(scripts, JSON.stringify({ scripts: [{ name: "greeting", ...script(13225) }, script(2375)] }));
  const server = await hosted([...FLAGS, "--fixtures", ordered, "--script", scripts]);
  const body = { model: "echo", understudy: { script: "from the body" } };
  const header = { "X-Understudy": '{"script":"from the header"}' };
  expect(await chat(server, "Said", body, header)).toBe("from the header (stop)");
  expect(await chat(server, "Said", body)).toBe("from the body (stop)");
  expect(await chat(server, "Said", { model: "echo", understudy: {} })).toBe("Said (stop)");
  expect(await chat(server, "play")).toBe("Hello (stop)");
  expect(await chat(server, "else")).toBe(" world (stop)");
  expect(await chat(server, "else", { max_tokens: 1 })).toEndWith("(length)");
  await server.stop();
});

describe("while the server runs", () => {
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, ".new"), text);
    renameSync(join(folder, ".new"), join(folder, name));
  };
  const both = (answer: string) =>
    `fixtures: [{match: {user: x}, answer: ${answer} x}, {match: {user: y}, answer: ${answer} y}]`;

  test.each([1, 2])(
    "changes take effect, and a bad file is reported and skipped, with %d worker(s)",
    async (workers) => {
      write("a.yaml", both("first"));
      const server = await serve([...FLAGS, "--workers", String(workers), "--fixtures", folder]);
      expect(await chat(server, "x")).toBe("first x (stop)");
      // Each connection may reach a different worker.
      const all = async (wanted: string) => {
        const answers = await Promise.all(
          Array.from({ length: 8 }, () => chat(server, "y", {}, { connection: "close" })),
        );
        return answers.every((line) => line.startsWith(wanted));
      };
      write("a.yaml", both("second"));
      await eventually(() => all("second y"));
      write("0.yml", "match: { user: y }\nanswer: { text: zeroth, finish: never }");
      await eventually(() =>
        server.output().includes("fixtures: 0.yml:2: answer: finish takes stop, length, error; the file is skipped"),
      );
      expect(await all("second y")).toBe(true);
      write("0.yml", "match: { user: y }\nanswer: zeroth");
      await eventually(() => all("zeroth"));
      rmSync(join(folder, "0.yml"));
      await eventually(() => all("second y"));
      expect(server.output().match(/0\.yml:2/g)).toHaveLength(1);
      expect(await server.stop()).toBe(0);
    },
  );

  test("a folder of links, as Kubernetes mounts a ConfigMap, changes when the inner link is replaced", async () => {
    const mounted = join(folder, "mounted");
    const version = (name: string, answer: string) => {
      mkdirSync(join(mounted, name), { recursive: true });
      writeFileSync(join(mounted, name, "a.yaml"), `answer: ${answer}`);
      symlinkSync(name, join(mounted, "..data_tmp"));
      renameSync(join(mounted, "..data_tmp"), join(mounted, "..data"));
    };
    version("..2026_1", "first");
    symlinkSync("..data/a.yaml", join(mounted, "a.yaml"));
    const server = await hosted([...FLAGS, "--fixtures", mounted]);
    expect(await chat(server, "x")).toBe("first (stop)");
    version("..2026_2", "second");
    rmSync(join(mounted, "..2026_1"), { recursive: true });
    await eventually(async () => (await chat(server, "x")) === "second (stop)");
    await server.stop();
  });

  test("requests switch from the old to the new set once, and always have a set", async () => {
    write("a.yaml", both("v0"));
    const server = await hosted([...FLAGS, "--fixtures", folder]);
    let version = 0;
    let asking = true;
    const asker = async (user: string) => {
      let seen = 0;
      while (asking) {
        const answer = await chat(server, user);
        const [, now] = /^v(\d+) . \(stop\)$/.exec(answer) ?? [];
        expect(Number(now)).toBeGreaterThanOrEqual(seen);
        seen = Number(now);
      }
      return seen;
    };
    const askers = ["x", "y", "x", "y"].map(asker);
    while (version < 5) {
      write("a.yaml", both(`v${++version}`));
      await eventually(async () => (await chat(server, "x")) === `v${version} x (stop)`);
    }
    asking = false;
    expect((await Promise.all(askers)).every((seen) => seen >= version - 1)).toBe(true);
    await server.stop();
  });
});

test.each(["1", "2"])("a missing folder ends the start with one line, with %s worker(s)", async (workers) => {
  const nowhere = join(folder, "nowhere");
  const command = [process.execPath, main, "serve", ...FLAGS, "--workers", workers, "--fixtures", nowhere];
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "pipe" });
  const [output, code] = await Promise.all([child.stderr.text(), child.exited]);
  expect([code, output]).toEqual([
    2,
    `understudy serve: --fixtures ${nowhere}: cannot be read (ENOENT); a folder of YAML files is needed\n`,
  ]);
});
