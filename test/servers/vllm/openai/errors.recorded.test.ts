/**
 * Every recorded request is accepted or refused like by the real server, byte for byte. All recorded bodies of
 * `/v1/chat/completions` and `/v1/completions` pass the reader and the checks in the order of a route.
 */

import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { atOnce } from "../../../../src/base/pieces.ts";
import * as errors from "../../../../src/servers/openai/request/errors.ts";
import { checkPromptText, truncatePrompt } from "../../../../src/servers/openai/request/prompts.ts";
import type { ChatRequest, GenerationRequest, Limits } from "../../../../src/servers/openai/request/request.ts";
import {
  checkDataParallelRank,
  checkIds,
  checkPrompt,
  checkSampling,
} from "../../../../src/servers/openai/request/sampling.ts";
import type { ErrorAnswer } from "../../../../src/servers/pydantic/refusals.ts";
import { chatStreamError, completionStreamError } from "../../../../src/servers/vllm/openai/chunks.ts";
import { readChat, readCompletion } from "../../../../src/servers/vllm/openai/read.ts";

interface ErrorRecording {
  readonly request: {
    readonly method: string;
    readonly path: string;
    readonly headers?: Record<string, string | null>;
    readonly body?: unknown;
    readonly body_text?: string;
    readonly body_base64?: string;
  };
  readonly response: {
    readonly status: number;
    readonly headers: Record<string, string>;
    readonly body?: string;
    readonly frames?: string[];
  };
  readonly engine_requests?: readonly {
    readonly prompt_token_ids: number[];
    readonly params: Record<string, unknown>;
  }[];
  readonly exchanges?: readonly Pick<ErrorRecording, "request" | "response">[];
}

const folder = new URL("../../../conformance/recorded/", import.meta.url);
const fileText = (name: string) => readFileSync(new URL(`${name}.json`, folder), "utf8");
const recorded = (name: string): ErrorRecording => JSON.parse(fileText(name));

/** Returns the recorded body as it was sent. Numbers keep their text (2^63, 1.0). */
function sentBody(name: string): string {
  const keep = (_: string, value: unknown, context: { source: string }) =>
    typeof value === "number" ? `#${context.source}` : value;
  const body = JSON.parse(fileText(name), keep as never).request.body;
  return JSON.stringify(body).replace(/"#([0-9.eE+-]+)"/g, "$1");
}

const PATHS = ["/v1/chat/completions", "/v1/completions"];
const names = readdirSync(folder)
  .filter((file) => /^(?:err|chat|cmpl)-.*\.json$/.test(file))
  .map((file) => file.slice(0, -5))
  .filter((name) => PATHS.includes(recorded(name).request?.path));

/** The limits of the recorded server. Its longest token has 14 characters. */
const limits: Limits = {
  maxModelLen: 1024,
  maxLogprobs: 20,
  vocabularySize: 580,
  maxTokenCharacters: 14,
  servedModelNames: ["golden"],
  loraNames: [],
};

/** Cases that this part of the server cannot answer as recorded, with the reason. A case that passes must be removed. */
const OUT_OF_SCOPE: Readonly<Record<string, string>> = {
  "err-bad-chunk-size": "the HTTP server refuses the framing before there is a body",
  "err-engine-error": "the engine fails during the request",
  "err-engine-error-stream": "the engine fails during the request",
  "err-engine-error-completions": "the engine fails during the request",
  "err-engine-error-completions-stream": "the engine fails during the request",
  "err-one-of-two-children": "the engine fails for one of two sequences",
  "err-response-format-bad-schema": "the grammar library's own error; no grammar is built here",
  "err-structured-grammar-bad": "the grammar library's own error; no grammar is built here",
  "err-structured-regex-bad": "the grammar library's own error; no grammar is built here",
};

function bodyOf(name: string, file: ErrorRecording): Uint8Array {
  const { request } = file;
  if (request.body_base64 !== undefined) return Buffer.from(request.body_base64, "base64");
  const text = request.body_text ?? sentBody(name);
  return Buffer.from(header(file, "transfer-encoding") === "chunked" ? unchunked(text) : text);
}

/** Removes the framing of chunks. Returns a text with wrong sizes unchanged. */
function unchunked(text: string): string {
  const pieces = [...text.matchAll(/([0-9a-f]+)\r\n([^\r]*)\r\n/g)];
  const right = pieces.every(([, size = "", data = ""]) => Number.parseInt(size, 16) === data.length);
  return right ? pieces.map(([, , data]) => data).join("") : text;
}

function header({ request }: ErrorRecording, name: string): string | null | undefined {
  const found = Object.entries(request.headers ?? {}).find(([key]) => key.toLowerCase() === name);
  return found?.[1];
}

/** Renders a chat with the recorded server's template. Its length decides whether a prompt is far too long. */
function render(request: ChatRequest): string {
  const parts = request.messages.map(({ role, content }) => `<|${role}|>${content ?? ""}<|end|>\n`);
  return `<|bos|>${parts.join("")}<|assistant|>`;
}

interface Outcome {
  readonly request?: GenerationRequest;
  readonly maxTokens: number[];
  readonly error?: ErrorAnswer;
  /** True if the client gets the error as an event of a stream that has begun, false if as the whole answer. */
  readonly inStream: boolean;
}

/**
 * Makes the checks of a route before it submits. The recorded server's tokenizer is not available. Prompts that reached its
 * engine have the recorded length. Other texts count one token per byte, which gives the same refusals.
 */
function play(name: string): Outcome {
  const file = recorded(name);
  const type = header(file, "content-type");
  const read = file.request.path === PATHS[0] ? readChat : readCompletion;
  const got = read(bodyOf(name, file), type === undefined ? "application/json" : type, limits);
  if ("error" in got) return { error: got.error, inStream: false, maxTokens: [] };
  const { request } = got;
  const truncated = request.truncatePromptTokens !== null;
  const prompts = request.kind === "chat" ? [render(request)] : request.prompts;
  const lengths: number[] = [];
  const maxTokens: number[] = [];
  for (const [i, prompt] of prompts.entries()) {
    const refused = typeof prompt === "string" ? checkPromptText(prompt, limits, truncated) : null;
    if (refused !== null) return { request, error: refused, inStream: false, maxTokens };
    const length =
      file.engine_requests?.[i * request.n]?.prompt_token_ids.length ??
      (typeof prompt === "string" ? Buffer.byteLength(prompt) : prompt.length);
    lengths.push(length);
    const checked = checkPrompt(request, length, typeof prompt === "string", limits);
    if ("error" in checked) return { request, error: checked.error, inStream: false, maxTokens };
    maxTokens.push(checked.maxTokens);
  }
  for (const length of lengths) {
    const rank = header(file, "x-data-parallel-rank") ?? null;
    const refused =
      checkSampling(request, limits, length, null, atOnce(checkIds(request, limits))) ?? checkDataParallelRank(rank, 1);
    if (refused !== null) return { request, error: refused, inStream: request.stream, maxTokens };
  }
  return { request, inStream: false, maxTokens };
}

/** Returns the status and the text that the client receives, or null if the request is accepted. */
function written({ request, error, inStream }: Outcome): { status: number; text: string } | null {
  if (error === undefined) return null;
  if (!inStream) return { status: error.status, text: error.body };
  const frame = request?.kind === "chat" ? chatStreamError(error) : completionStreamError(error);
  return { status: 200, text: `${frame}data: [DONE]\n\n` };
}

function expected({ response }: ErrorRecording): { status: number; text: string } | null {
  const failed = response.status !== 200 || response.frames?.some((frame) => frame.startsWith('data: {"error"'));
  if (!failed) return null;
  return {
    status: response.status,
    text: response.body ?? response.frames?.map((frame) => `${frame}\n\n`).join("") ?? "",
  };
}

describe("recorded requests", () => {
  test("all recordings are present", () => {
    const count = (prefix: string) => names.filter((name) => name.startsWith(prefix)).length;
    expect([count("err-"), count("chat-"), count("cmpl-")]).toEqual([145, 99, 29]);
    expect(Object.keys(OUT_OF_SCOPE).filter((name) => !names.includes(name))).toEqual([]);
  });

  for (const name of names) {
    if (name in OUT_OF_SCOPE)
      test(`${name}: still out of scope`, () => expect(written(play(name))).not.toEqual(expected(recorded(name))));
    else test(name, () => expect(written(play(name))).toEqual(expected(recorded(name))));
  }
});

describe("an accepted request", () => {
  const accepted = names.filter((name) => recorded(name).engine_requests !== undefined && !(name in OUT_OF_SCOPE));

  test.each(accepted)("%s: has the sampling parameters of the real server", (name) => {
    const { request, maxTokens } = play(name);
    const { engine_requests = [] } = recorded(name);
    if (request === undefined) throw new Error("refused");
    for (const [i, { params }] of engine_requests.entries()) {
      expect(maxTokens[Math.floor(i / request.n)]).toBe(params.max_tokens as number);
      expect(request.minTokens).toBe((params.min_tokens as number) ?? 0);
      expect(request.temperature).toBe((params.temperature as number) ?? 1);
      expect(request.ignoreEos).toBe((params.ignore_eos as boolean) ?? false);
      expect([...request.stop]).toEqual((params.stop as string[]) ?? []);
      expect([...request.stopTokenIds]).toEqual((params.stop_token_ids as number[]) ?? []);
      expect(request.includeStopStrInOutput).toBe((params.include_stop_str_in_output as boolean) ?? false);
      expect(request.skipSpecialTokens).toBe((params.skip_special_tokens as boolean) ?? true);
      expect(request.promptLogprobs).toBe((params.prompt_logprobs as number) ?? null);
      expect(request.sampling.logprobs).toBe((params.logprobs as number) ?? null);
      expect([1, request.n]).toContain((params.n as number) ?? 1);
    }
  });

  test("truncation keeps the last tokens of a prompt by default", () => {
    const truncatedIds = (fields: object) => {
      const got = readCompletion(
        Buffer.from(JSON.stringify({ prompt: [1, 2, 3, 4], ...fields })),
        "application/json",
        limits,
      );
      if ("error" in got) throw new Error(got.error.body);
      return [...truncatePrompt(Uint32Array.of(1, 2, 3, 4), got.request, limits)];
    };
    expect(truncatedIds({ truncate_prompt_tokens: 2 })).toEqual([3, 4]);
    expect(truncatedIds({ truncate_prompt_tokens: 2, truncation_side: "right" })).toEqual([1, 2]);
    expect(truncatedIds({ truncate_prompt_tokens: -1 })).toEqual([1, 2, 3, 4]);
    expect(truncatedIds({})).toEqual([1, 2, 3, 4]);
  });
});

describe("errors that do not depend on the body", () => {
  const plain = (name: string, at?: number): ErrorAnswer => {
    const file = recorded(name);
    const { status, body, headers } = (at === undefined ? file : (file.exchanges?.[at] ?? file)).response;
    return { status, body: body ?? "", ...(headers.allow !== undefined && { headers: { allow: headers.allow } }) };
  };

  test.each([
    ["queue-full", errors.engineBusy],
    ["queue-tokens-full", errors.prefillBacklog],
    ["auth-wrong", errors.unauthorized],
    ["route-unknown", errors.notFound],
    ["route-wrong-method", errors.methodNotAllowed("POST")],
    ["err-engine-error", errors.internalError],
    ["err-engine-error-completions", errors.internalError],
  ] as const)("%s", (name, answer) => expect(answer).toEqual(plain(name)));

  test("dev-pause-resume", () => {
    const frames = (at: number) =>
      recorded("dev-pause-resume").exchanges?.[at]?.response.frames?.map((frame) => `${frame}\n\n`);
    expect(errors.paused).toEqual(plain("dev-pause-resume", 3));
    expect(chatStreamError(errors.pausedInChatStream)).toBe(frames(4)?.[0] ?? "");
    expect(completionStreamError(errors.paused)).toBe(frames(5)?.[0] ?? "");
  });

  test("engine-dies-plain", () => {
    expect(errors.engineDead).toEqual(plain("engine-dies-plain", 0));
    expect(errors.engineDead).toEqual(plain("engine-dies-plain", 1));
  });

  test.each([
    ["err-engine-error-stream", chatStreamError],
    ["err-one-of-two-children", chatStreamError],
    ["err-engine-error-completions-stream", completionStreamError],
  ] as const)("%s: the event of the error", (name, frame) => {
    expect(frame(errors.internalError)).toBe(`${recorded(name).response.frames?.at(-2)}\n\n`);
  });

  test("only streams of completions escape text beyond ASCII", () => {
    const answer = errors.badRequest("é😀 /usr/lib/python3 said");
    expect(chatStreamError(answer)).toContain('"é😀 <path> said"');
    expect(completionStreamError(answer)).toContain('"message": "\\u00e9\\ud83d\\ude00 <path> said"');
  });

  test("a body above our own limit gets an error of the usual form", () => {
    const { status, body } = errors.bodyTooLarge(64 * 1024 * 1024);
    expect(status).toBe(413);
    expect(JSON.parse(body).error).toMatchObject({ param: null, code: 413 });
    expect(body).toContain("64 MiB");
  });
});

/** Errors of vLLM 0.33's request models that no recording has: fields of the body, message and param. */
const BEYOND: readonly (readonly [text: string, message: string, param: string | null])[] = [
  [
    '"n":"5.5"',
    "1 validation error:\n  {'type': 'int_parsing', 'loc': 'body.n', 'msg': 'Input should be a valid integer, unable to parse string as an integer', 'input': '5.5'}",
    "body.n",
  ],
  ['"n":"-5"', "n must be at least 1, got -5.", null],
  [
    '"n":1e+20',
    "1 validation error:\n  {'type': 'int_parsing_size', 'loc': 'body.n', 'msg': 'Unable to parse input string as an integer, exceeded maximum size', 'input': '1e+20'}",
    "body.n",
  ],
  [
    '"n":1000000000000000000000000000000',
    "n must be at most 16384, got 1000000000000000000000000000000. To increase this limit, set the VLLM_MAX_N_SEQUENCES environment variable.",
    null,
  ],
  [
    '"temperature":"1_0"',
    "temperature must be in [0, 2], got 10.0. (parameter=temperature, value=10.0)",
    "temperature",
  ],
  ['"min_p":-1e-5', "min_p must be in [0, 1], got -1e-05.", null],
  [
    '"user":100000.0',
    "1 validation error:\n  {'type': 'string_type', 'loc': 'body.user', 'msg': 'Input should be a valid string', 'input': '100000.0'}",
    "body.user",
  ],
  [
    '"logprobs":0.5',
    "1 validation error:\n  {'type': 'bool_type', 'loc': 'body.logprobs', 'msg': 'Input should be a valid boolean', 'input': '0.5'}",
    "body.logprobs",
  ],
  [
    '"logit_bias":{"list":"x"}',
    "1 validation error:\n  {'type': 'float_parsing', 'loc': 'body.logit_bias', 'msg': 'Input should be a valid number, unable to parse string as a number', 'input': 'x'}",
    "body.logit_bias",
  ],
  [
    '"logit_bias":{"9":"x","1":"y"}',
    "2 validation errors:\n  {'type': 'float_parsing', 'loc': 'body.logit_bias.9', 'msg': 'Input should be a valid number, unable to parse string as a number', 'input': 'x'}\n  {'type': 'float_parsing', 'loc': 'body.logit_bias.1', 'msg': 'Input should be a valid number, unable to parse string as a number', 'input': 'y'}",
    "body.logit_bias.9",
  ],
  [
    '"thinking_token_budget":5.0',
    "`thinking_token_budget` must be a non-negative integer or -1 for unlimited. (parameter=thinking_token_budget, value=5.0)",
    "thinking_token_budget",
  ],
  [
    '"vllm_xargs":{"a":18446744073709551616}',
    "extra_args integers must be between -2**63 and 2**64 - 1. (parameter=extra_args)",
    "extra_args",
  ],
  [
    '"repetition_detection":"x"',
    "1 validation error:\n  {'type': 'dataclass_type', 'loc': 'body.repetition_detection', 'msg': 'Input should be a dictionary or an instance of RepetitionDetectionParams', 'input': 'x', 'ctx': {'class_name': 'RepetitionDetectionParams'}}",
    "body.repetition_detection",
  ],
  [
    '"messages":[{"role":"assistant","tool_calls":"a"}]',
    "2 validation errors:\n  {'type': 'dict_type', 'loc': 'body.0.ChatCompletionMessageFunctionToolCallParam', 'msg': 'Input should be a valid dictionary', 'input': 'a'}\n  {'type': 'dict_type', 'loc': 'body.0.ChatCompletionMessageCustomToolCallParam', 'msg': 'Input should be a valid dictionary', 'input': 'a'}",
    "body.0.ChatCompletionMessageFunctionToolCallParam",
  ],
  ['"tools":["x"],"tool_choice":{"function":{"name":"f"}}', "string indices must be integers, not 'str'", null],
];

test.each(BEYOND)("%s", (fields, message, param) => {
  const messages = fields.includes('"messages"') ? "" : '"messages":[{"role":"user","content":"x"}],';
  const read = readChat(Buffer.from(`{${messages}${fields}}`), "application/json", limits);
  const checked = "error" in read ? read : checkPrompt(read.request, 5, true, limits);
  if (!("error" in checked)) throw new Error("accepted");
  expect(JSON.parse(checked.error.body).error).toMatchObject({ message, param, code: 400 });
});

test("an unexpected Python exception is answered with 500", () => {
  const body = Buffer.from('{"messages":[{"role":"user","content":"x"}],"structured_outputs":"x"}');
  expect(readChat(body, "application/json", limits)).toEqual({
    error: errors.unexpectedError("'str' object has no attribute 'get'"),
  });
});
