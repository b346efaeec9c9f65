/**
 * Tests streams with status 200 that are not successful: errors in all forms that servers use, and ends without a finish
 * reason.
 */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { loadOn } from "./loaded.ts";
import { bytesOf, chatEvent, chunk, END, event, HEAD, read, usageEvent } from "./played.ts";
import { type RawServer, rawServer } from "./raw-server.ts";

setDefaultTimeout(20_000);

let server: RawServer | null = null;
afterEach(() => server?.stop());

const TOKEN = event(chatEvent({ delta: { content: "a" } }));
const FINISH = event(chatEvent({ finish: "stop" }));
const DONE = event("[DONE]");
const body = (...events: readonly string[]) => HEAD + chunk(events.join("")) + END;
const failureOf = (stream: string) => read([[5, bytesOf(stream)]], { closes: true }).exchange.answer.failure;

/** Objects that servers and gateways send in place of a chunk, with the message in each. */
const ERRORS: readonly (readonly [object, string | RegExp])[] = [
  [{ error: { message: "TimeoutError", type: "GatewayTimeout", code: 504 } }, "TimeoutError"],
  [{ error: "in ensemble 'e', failed" }, "in ensemble 'e', failed"],
  [{ object: "error", message: "gone", type: "NotFoundError", code: 404 }, "gone"],
  [{ type: "error", error: { type: "overloaded_error", message: "Overloaded" } }, "Overloaded"],
  [{ type: "response.failed", response: { id: "r" } }, /response\.failed/],
  [{ detail: "Internal Server Error" }, "Internal Server Error"],
  [{ detail: [{ loc: ["body"], msg: "Field required", type: "missing" }] }, /Field required/],
  [{ errors: [{ message: "quota" }] }, /quota/],
  [{ message: "gone", status_code: 500 }, "gone"],
  [{ message: "no healthy upstream" }, "no healthy upstream"],
  [{ statusCode: 503, body: "busy" }, /503/],
  [{ status: 500, title: "Internal Server Error" }, /Internal Server Error/],
  [{ status: "error", text: "x" }, /error/],
  [{ code: "rate_limit_exceeded_error" }, /rate_limit/],
  [{ fault: { faultstring: "Spike arrest", detail: {} } }, /Spike arrest/],
  [{ __type: "ThrottlingException", message: "Rate exceeded" }, "Rate exceeded"],
  [{ success: false, reason: "x" }, /false/],
  [{ error_code: 17, error_msg: "daily limit" }, /17|daily limit/],
];

describe("error objects in each known form", () => {
  test.each(ERRORS.map(([value, message]) => [JSON.stringify(value), value, message] as const))(
    "%s",
    (_, value, message) => {
      const late = [body(event(value), DONE), body(TOKEN, event(value), DONE), body(TOKEN, FINISH, event(value), DONE)];
      for (const stream of late) {
        const failure = failureOf(stream);
        expect(failure?.kind).toBe("error event");
        expect(failure!.message).toMatch(message);
      }
    },
  );
});

test.each([
  ["an object", '{"anything":1}', /anything/],
  ["a message", '{"message":"gone"}', /^gone$/],
  ["a chunk", JSON.stringify(chatEvent({ delta: { content: "a" } })), /choices/],
  ["a text", "out of memory", /^out of memory$/],
])("an event of type error is an error with any data: %s", (_, data, message) => {
  for (const type of ["event: error\n", "event:error\r\n", ": x\nevent: error\nid: 3\n"]) {
    const failure = failureOf(body(TOKEN, TOKEN, `${type}data: ${data}\n\n`, FINISH, DONE));
    expect(failure?.kind).toBe("error event");
    expect(failure!.message).toMatch(message);
  }
});

test("other event types, pings and chunks with unknown members are not errors", () => {
  const pings = [
    `event: errors\n${TOKEN}`,
    `event: message\n${TOKEN}`,
    "event: error\n\n",
    event({ type: "ping" }),
    event({}),
    event({ id: "x", object: "chat.completion.chunk", status: "in_progress" }),
    event({ ...usageEvent(1), detail: "cached" }),
    event({ ...chatEvent({ delta: { content: "b" } }), message: "error" }),
    event({ error: null }),
  ];
  expect(failureOf(body(TOKEN, ...pings, FINISH, DONE))).toBeNull();
});

test("an error body with status 200 is an error", () => {
  const whole = (value: object) => {
    const text = JSON.stringify(value);
    const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n`;
    return read([[5, bytesOf(head + text)]], { stream: false }).exchange.answer.failure?.kind;
  };
  expect([whole({ error: "gone" }), whole({ detail: "gone" }), whole({ object: "error", message: "m" })]).toEqual([
    "error event",
    "error event",
    "error event",
  ]);
  expect(whole({ choices: [{ message: { content: "a" } }] })).toBeUndefined();
});

test("a bare JSON error with status 200 in place of a stream is reported with the server's text", () => {
  const bare = (text: string, stream = true) => {
    const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n`;
    return read([[5, bytesOf(head)], ...[...text].map((part) => [6, bytesOf(part)] as const)], { stream }).exchange
      .answer.failure;
  };
  expect(bare('{"error":{"message":"quota"}}')).toEqual({ kind: "error event", message: "quota" });
  expect(bare('{"detail":"gone"}')).toEqual({ kind: "error event", message: "gone" });
  expect(bare(`{"error":"${"x".repeat(20_000)}"}`)?.kind).toBe("no token");
  expect(bare('{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}')?.kind).toBe("no token");
  expect(bare('{"error":')?.kind).toBe("no token");
});

const START = event(chatEvent({ delta: { role: "assistant", content: "" } }));
const TIMEOUT = event({ error: { message: "TimeoutError", type: "GatewayTimeout", code: 504 } });
const delta = (value: object) => event(chatEvent({ delta: value }));
const call = (value: object) => delta({ tool_calls: [{ index: 0, ...value }] });
/** Streams from users: their events, and the expected failure, or null and the chunks with output. */
const MET: Readonly<Record<string, readonly [events: readonly string[], failure: string | null, chunks?: number]>> = {
  "an error first": [[TIMEOUT, DONE], "error event"],
  "an error late": [[START, TOKEN, delta({ content: " b" }), TIMEOUT, DONE], "error event"],
  "an error after the finish reason": [[START, TOKEN, FINISH, TIMEOUT, DONE], "error event"],
  "an error that is a text": [[TOKEN, event({ error: "in ensemble 'e', failed" }), DONE], "error event"],
  "an event of type error": [
    [TOKEN, `event: error\n${event({ message: "gone", status_code: 500 })}`, DONE],
    "error event",
  ],
  "no finish reason": [[START, TOKEN, event(usageEvent(1)), DONE], "incomplete"],
  "no finish reason and no [DONE]": [[START, TOKEN], "mid-stream end"],
  "reasoning, then text": [[START, delta({ reasoning: "Okay" }), delta({ content: "A" }), FINISH, DONE], null, 2],
  "reasoning under both names": [
    [
      delta({ role: "assistant", content: null, reasoning: null, reasoning_content: null }),
      delta({ reasoning: "Okay", reasoning_content: "Okay" }),
      delta({ content: "A", reasoning: null, reasoning_content: null }),
      ...[FINISH, event(usageEvent(2)), DONE],
    ],
    null,
    2,
  ],
  "tool calls in odd pieces": [
    [
      delta({ role: "assistant", content: null }),
      call({ id: "call_1", type: "function" }),
      call({ id: "", type: "", function: { name: "f", arguments: "" } }),
      call({ id: "", type: "", function: { name: null, arguments: "{}" } }),
      ...[event(chatEvent({ finish: "tool_calls" })), event(usageEvent(3)), DONE],
    ],
    null,
    3,
  ],
  "empty deltas": [[START, delta({}), delta({}), TOKEN, FINISH, event(usageEvent(4)), DONE], null, 1],
  "chunks that repeat the text so far": [
    [START, TOKEN, delta({ content: "a b" }), delta({ content: " c" }), FINISH, DONE],
    null,
    3,
  ],
};

test.each(Object.entries(MET))("%s: the answer has the expected outcome", (_, [events, failure, chunks]) => {
  const { answer } = read([[5, bytesOf(body(...events))]], { closes: true }).exchange;
  expect(answer.failure?.kind ?? null).toBe(failure as never);
  if (chunks !== undefined) expect(answer.chunks).toBe(chunks);
});

test("a finish reason of any choice completes a stream; without one it counts as incomplete, with a warning", async () => {
  const second = event({ ...chatEvent({}), choices: [{ index: 1, delta: {}, finish_reason: "stop" }] });
  const both = event({
    ...chatEvent({}),
    choices: [
      { index: 0, delta: {}, finish_reason: null },
      { index: 1, delta: {}, finish_reason: "stop" },
    ],
  });
  const streams = [
    body(TOKEN, FINISH, DONE),
    body(TOKEN, second, DONE),
    body(TOKEN, both, DONE),
    body(TOKEN, FINISH),
    body(TOKEN, DONE),
    body(TOKEN, event(usageEvent(1)), DONE),
    body(TOKEN, event({ detail: "gone" }), DONE),
  ];
  let next = 0;
  server = rawServer((_, wire) => wire.send(streams[next++ % streams.length]!));
  const { result, records } = await loadOn(server, { count: 7 });
  const { counts, errors, warnings } = result.understudy as unknown as {
    counts: Record<string, number>;
    errors: Record<string, number>;
    warnings: string[];
  };
  expect(counts).toMatchObject({ sent: 7, completed: 4, failed: 1, incomplete: 2 });
  expect(errors).toEqual({ incomplete: 2, "error event": 1 });
  expect(warnings.join("\n")).toContain("2 streams ended without a finish_reason");
  expect([result.completed, result.failed]).toEqual([4, 1]);
  expect(records.filter(({ failure }) => failure?.kind === "incomplete")).toHaveLength(2);
});
