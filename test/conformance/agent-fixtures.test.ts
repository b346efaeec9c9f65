/** Tests fixtures for a coding agent, selected by User-Agent: a tool call, then the end, and refusals before an answer. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type HostedServer, hosted } from "../hosted.ts";

setDefaultTimeout(60_000);

const FLAGS = ["--timing", "none", "--served-model-name", "m", "--disable-uvicorn-access-log"];
const TOOLS = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"];

const TWO_TURNS = String.raw`
fixtures:
  - match:
      user: { contains: TASK }
      headers: { user-agent: { regex: "(?i)claude" } }
      nth: 1
    answer: "I will look.\n<tool_call>\n{\"name\": \"Bash\", \"arguments\": {\"command\": \"cat a.txt\"}}\n</tool_call>"
  - match:
      user: { contains: TASK }
      headers: { user-agent: { regex: "(?i)codex" } }
      nth: 1
    answer: "I will look.\n<tool_call>\n{\"name\": \"exec_command\", \"arguments\": {\"cmd\": \"cat a.txt\"}}\n</tool_call>"
  - match:
      user: { contains: TASK }
      headers: { user-agent: { regex: "(?i)opencode|qwen" } }
      body: { tools: { present: true } }
      nth: 1
    answer: "I will look.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"cat a.txt\"}}\n</tool_call>"
  - answer: The file says hello. Done.
`;

const REFUSALS = `
fixtures:
  - match: { headers: { user-agent: { regex: "(?i)codex" } }, nth: [1, 2] }
    answer: { error: { status: 429, message: slow down, retry_after_s: 1 } }
  - match: { headers: { user-agent: { regex: "(?i)claude" } }, nth: [1, 2] }
    answer: { error: { status: 429, message: slow down, retry_after_s: 2 } }
`;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "understudy-agents-"));
  for (const [name, text] of [
    ["two-turns", TWO_TURNS],
    ["refusals", REFUSALS],
  ] as const) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, "agents.yaml"), text);
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

function asking(server: HostedServer) {
  return (path: string, agent: string, body: object): Promise<Response> =>
    fetch(server.url + path, {
      method: "POST",
      headers: { "content-type": "application/json", "user-agent": agent },
      body: JSON.stringify({ model: "m", ...body }),
    });
}

const schema = { type: "object", properties: { command: { type: "string" } } };

describe("two turns", () => {
  let server: HostedServer;
  beforeAll(async () => {
    server = await hosted([...FLAGS, ...TOOLS, "--fixtures", join(folder, "two-turns")]);
  });
  afterAll(() => server.stop());

  test("an agent of Anthropic's messages gets a tool_use block, then text", async () => {
    const turn = async () => {
      const answer = await asking(server)("/v1/messages", "claude-cli/2.0", {
        max_tokens: 200,
        tools: [{ name: "Bash", input_schema: schema }],
        messages: [{ role: "user", content: "TASK" }],
      });
      return (await answer.json()) as { content: object[]; stop_reason: string };
    };
    expect(await turn()).toMatchObject({
      stop_reason: "tool_use",
      content: [
        { type: "text", text: expect.stringContaining("I will look.") },
        { type: "tool_use", name: "Bash", input: { command: "cat a.txt" } },
      ],
    });
    expect(await turn()).toMatchObject({
      stop_reason: "end_turn",
      content: [{ type: "text", text: "The file says hello. Done." }],
    });
  });

  test("an agent of the responses API gets a function_call item, then a message", async () => {
    const turn = async () => {
      const answer = await asking(server)("/v1/responses", "codex_cli_rs/0.50", {
        max_output_tokens: 200,
        tools: [{ type: "function", name: "exec_command", parameters: schema }],
        input: [{ role: "user", content: "TASK" }],
      });
      return ((await answer.json()) as { output: object[] }).output;
    };
    const call = { type: "function_call", name: "exec_command", arguments: expect.stringContaining("cat a.txt") };
    expect((await turn()).at(-1)).toMatchObject(call);
    expect((await turn()).at(-1)).toMatchObject({
      type: "message",
      content: [{ type: "output_text", text: "The file says hello. Done." }],
    });
  });

  test("an agent of chat completions gets a tool call, then text", async () => {
    const turn = async () => {
      const answer = await asking(server)("/v1/chat/completions", "opencode/1.0", {
        max_tokens: 200,
        tools: [{ type: "function", function: { name: "bash", parameters: schema } }],
        messages: [{ role: "user", content: "TASK" }],
      });
      return ((await answer.json()) as { choices: [{ finish_reason: string; message: object }] }).choices[0];
    };
    expect(await turn()).toMatchObject({
      finish_reason: "tool_calls",
      message: { tool_calls: [{ function: { name: "bash", arguments: '{"command": "cat a.txt"}' } }] },
    });
    expect(await turn()).toMatchObject({
      finish_reason: "stop",
      message: { content: "The file says hello. Done." },
    });
  });
});

test("the first two requests of each agent are refused with Retry-After, the third is answered", async () => {
  const server = await hosted([...FLAGS, "--fixtures", join(folder, "refusals")]);
  try {
    const body = { max_tokens: 5, messages: [{ role: "user", content: "hi" }] };
    const agents = [
      ["/v1/chat/completions", "codex", "1"],
      ["/v1/messages", "Claude", "2"],
    ] as const;
    for (const [path, agent, after] of agents) {
      const seen: [number, string | null][] = [];
      for (let turn = 0; turn < 3; turn++) {
        const answer = await asking(server)(path, agent, body);
        seen.push([answer.status, answer.headers.get("retry-after")]);
        await answer.text();
      }
      expect(seen).toEqual([
        [429, after],
        [429, after],
        [200, null],
      ]);
    }
  } finally {
    await server.stop();
  }
});
