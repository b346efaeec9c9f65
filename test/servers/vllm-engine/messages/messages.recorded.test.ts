/** Compares decoded requests and encoded answers with the recorded messages of vLLM 0.33.0, byte for byte. */
import { describe, expect, test } from "bun:test";
import type { ArrayOfNumbers } from "../../../../src/servers/vllm-engine/messages/arrays.ts";
import {
  type Registration,
  registrationMessage,
  statusMessage,
} from "../../../../src/servers/vllm-engine/messages/handshake.ts";
import { engineInput, initMessage } from "../../../../src/servers/vllm-engine/messages/incoming.ts";
import { LAYOUTS } from "../../../../src/servers/vllm-engine/messages/layouts.ts";
import {
  ENGINE_CORE_DEAD,
  type EngineCoreOutput,
  type EngineCoreOutputs,
  type LogprobsArrays,
  OutputsWriter,
} from "../../../../src/servers/vllm-engine/messages/outputs.ts";
import { jsonValue } from "../../../../src/servers/vllm-engine/messages/read.ts";
import { decodeMsgpack } from "../../../../src/wire/msgpack/reader.ts";
import { Extension, type MsgpackValue } from "../../../../src/wire/msgpack/values.ts";
import { bodyOf, RECORDED, type RecordedMessage } from "../recorded-frames.ts";

const layout = LAYOUTS["0.33"];
const fromEngine = RECORDED.filter(({ isFromEngine }) => isFromEngine);
const toEngine = RECORDED.filter(({ isFromEngine }) => !isFromEngine);

type List = readonly MsgpackValue[];

/** Returns the arrays of log probabilities. `frames`: those of the message. */
function logprobs(value: MsgpackValue, frames: readonly Buffer[]): LogprobsArrays | null {
  if (value === null) return null;
  const [token_ids, logprobs, ranks] = (value as readonly List[]).slice(0, 3).map(([type, shape, data]) => {
    const bytes = data instanceof Extension ? data.data : frames[data as number]!;
    return { type, shape, data: bytes } as ArrayOfNumbers;
  });
  return { token_ids: token_ids!, logprobs: logprobs!, ranks: ranks! };
}

const named = (names: readonly string[], list: List) => Object.fromEntries(names.map((name, at) => [name, list[at]!]));

function outputOf(list: List, frames: readonly Buffer[]): EngineCoreOutput {
  const { new_logprobs, new_prompt_logprobs_tensors, ...rest } = named(layout.output, list);
  return {
    ...(jsonValue(new Map(Object.entries(rest))) as EngineCoreOutput),
    new_logprobs: logprobs(new_logprobs!, frames),
    new_prompt_logprobs_tensors: logprobs(new_prompt_logprobs_tensors!, frames),
  };
}

/** Returns a recorded message as an engine would make it. */
function outputsOf(message: RecordedMessage): EngineCoreOutputs {
  const list = decodeMsgpack(bodyOf(message)) as List;
  const { outputs, utility_output, ...rest } = named(layout.outputs, list);
  const [call_id, failure, result] = (utility_output as List | null) ?? [];
  return {
    ...(jsonValue(new Map(Object.entries(rest))) as EngineCoreOutputs),
    outputs: (outputs as readonly List[]).map((one) => outputOf(one, message.frames)),
    utility_output:
      call_id === undefined
        ? null
        : {
            call_id: call_id as number | bigint,
            failure: failure as string | null,
            result: result && jsonValue((result as List)[1]!),
          },
  };
}

function encoded(message: RecordedMessage, writer: OutputsWriter): readonly Uint8Array[] {
  if (message.decoded === null) return [ENGINE_CORE_DEAD];
  if (message.socket === "output") return writer.frames(outputsOf(message));
  const values = message.decoded as Registration & { readonly status?: "HELLO" | "READY" };
  return [values.status === undefined ? registrationMessage(values) : statusMessage(values.status)];
}

test("every message of an engine is encoded to its recorded bytes, in memory that is used again", () => {
  const writer = new OutputsWriter(layout);
  for (const message of fromEngine) {
    const frames = encoded(message, writer).map((frame) => Buffer.from(frame).toString("hex"));
    expect({ name: message.name, frames }).toEqual({
      name: message.name,
      frames: message.frames.map((frame) => frame.toString("hex")),
    });
  }
  expect(fromEngine.filter(({ decoded }) => decoded !== null).length).toBe(97);
});

describe("what front ends send", () => {
  const inputs = toEngine.filter(({ socket }) => socket === "input");

  test("every recorded input is decoded, and every handshake", () => {
    const types = inputs.map(({ frames }) => engineInput(frames, layout).type);
    const count = (type: string) => types.filter((one) => one === type).length;
    expect({ add: count("add"), abort: count("abort"), utility: count("utility") }).toEqual({
      add: 47,
      abort: 5,
      utility: 21,
    });
    for (const message of toEngine.filter(({ socket }) => socket === "handshake")) {
      const { addresses, parallel_config } = initMessage(bodyOf(message));
      expect({ addresses, parallel_config: jsonValue(parallel_config) }).toEqual(message.decoded as never);
    }
  });

  const added = (name: string) => {
    const message = inputs.find((one) => one.name.startsWith(name) && one.name.includes("ADD"))!;
    const input = engineInput(message.frames, layout);
    if (input.type !== "add") throw new Error(`${name} is no ADD`);
    return input.request;
  };

  test.each(["rust-sampling-many", "python-sampling-many"])("sampling parameters have their values: %s", (name) => {
    const { sampling_params, cache_salt, priority } = added(name);
    expect(sampling_params).toMatchObject({
      temperature: 0.5,
      top_p: 0.75,
      top_k: 5,
      min_p: 0.125,
      seed: 7,
      max_tokens: 3,
      min_tokens: 2,
      logit_bias: new Map([[5, 1.5]]),
      allowed_token_ids: [50, 57, 64],
      _bad_words_token_ids: [[264, 347]],
      extra_args: { a: 1, b: "x", kv_transfer_params: { do_remote_decode: true } },
    });
    expect({ cache_salt, priority }).toEqual({ cache_salt: "salt", priority: 3 });
  });

  test("fields that are left out have vLLM's defaults", () => {
    const request = RECORDED.find(({ name }) => name.includes("add-defaults"))!;
    const input = engineInput(request.frames, layout);
    expect(input).toMatchObject({
      type: "add",
      request: {
        request_id: "r1-1234abcd",
        prompt_token_ids: [0, 4, 264],
        arrival_time: 1700000000.5,
        sampling_params: { temperature: 1, top_p: 1, max_tokens: 16, min_tokens: 0, seed: null, _eos_token_id: null },
        lora_request: null,
        priority: 0,
        abort_immediately: false,
      },
    });
  });

  test("a call keeps an id beyond 2^53", () => {
    const call = RECORDED.find(({ name }) => name.includes("utility-call"))!;
    expect(engineInput(call.frames, layout)).toEqual({
      type: "utility",
      call: { client_index: 0, call_id: 16444791273297875441n, method: "reset_prefix_cache", args: [false, false] },
    });
  });

  test("an adapter is read", () => {
    const lora = RECORDED.find(({ name }) => name.includes("add-lora"))!;
    expect(engineInput(lora.frames, layout)).toMatchObject({
      request: { lora_request: { name: "ad1", id: 2, path: "/adapters/ad1" }, priority: -1, external_req_id: "r1" },
    });
  });
});
