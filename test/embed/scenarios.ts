/** The expected result of each scenario in test/embed/scenario.js. */
import { expect } from "bun:test";
import type { createServer } from "../../src/embed/bun.ts";
// @ts-expect-error a program for Node and Bun alike, without types
import * as scenarios from "./scenario.js";

type Scenario = (create: typeof createServer) => Promise<unknown>;

const base = { method: "POST", path: "/v1/chat/completions", key: "[struck out]" };
const EXPECTED = {
  requests: {
    seen: [
      {
        ...base,
        method: "GET",
        path: "/v1/models?x=1",
        status: 200,
        outcome: "answered",
        tokens: 0,
        finish: [],
        body: null,
      },
      {
        ...base,
        status: 200,
        outcome: "answered",
        tokens: 5,
        finish: ["length"],
        body: expect.objectContaining({ max_tokens: 5 }),
      },
      { ...base, status: 400, outcome: "refused", tokens: 0, finish: [], body: { nonsense: 1 } },
      { ...base, status: 401, outcome: "refused", tokens: 0, finish: [], body: null },
    ],
    times: true,
    last: { outcome: "aborted", finish: ["abort"], some: true, prompt: "x" },
  },
  answers: {
    ...{ first: "First.", status: 429, retry: "7", error: "Slow down.", rules: ["Rain.", "Cold."] },
    ...{ call: ["look", { at: "Rome", days: [1, 2] }, "tool_calls"], tokens: 4, free: true },
    wrong: [
      "TypeError: match.usr: not known; it takes path, model, user, messages, headers, body, nth",
      expect.stringMatching(/^TypeError: answer\.txt: not known; it takes text, echo, tool_calls,/),
      "TypeError: answer.error.status: takes a status from 400 to 599",
    ],
  },
  throwing: { status: 500, told: "Error: mine", after: 200, closed: null, late: "Error: reset: the server is closed" },
  streams: {
    ...{ tokens: 4, done: true, waited: true, rest: "ended", gone: true, ended: null },
    late: "string",
    waiting: expect.stringMatching(/^Error: (snapshot: the server is closed|the server's process)/),
  },
  tells: {
    ...{ nothing: "the server saw no request", rising: true, prompt: true, generations: 1, lines: 21 },
    first: "the server saw 20 requests, after 12 earlier ones; ms after the first:",
  },
  resets: {
    same: true,
    first: { id: true, text: true, counted: true, hits: 0, ended: 1, requests: 1 },
    loaded: [1, 2],
    ends: 3,
    idle: [0, 0, 0],
    never: expect.stringMatching(
      /^Error: not within 30 ms: .*running > 5; the state was open 0, running 0, waiting 0, kvUsage 0/,
    ),
  },
};

const all: Readonly<Record<string, Scenario>> = { ...scenarios };

export const SCENARIOS = Object.entries(EXPECTED).map(([name, expected]) => [name, all[name]!, expected] as const);
