/** Tests messages that no front end sends: each is refused with the name of the field, or read without what is unknown. */
import { expect, test } from "bun:test";
import { frontMessage, initMessage } from "../../../../src/servers/vllm-engine/messages/incoming.ts";
import { LAYOUTS } from "../../../../src/servers/vllm-engine/messages/layouts.ts";
import { OutputsWriter, PLAIN_OUTPUT, PLAIN_OUTPUTS } from "../../../../src/servers/vllm-engine/messages/outputs.ts";
import { MessageError } from "../../../../src/servers/vllm-engine/messages/read.ts";
import { RequestError } from "../../../../src/servers/vllm-engine/messages/request.ts";
import { decodeMsgpack, MsgpackError } from "../../../../src/wire/msgpack/reader.ts";
import { Extension, Float32, type MsgpackValue } from "../../../../src/wire/msgpack/values.ts";
import { MsgpackWriter } from "../../../../src/wire/msgpack/writer.ts";

const layout = LAYOUTS["0.33"];

function encoded(value: MsgpackValue): Buffer {
  const writer = new MsgpackWriter();
  writer.value(value);
  return writer.copy();
}
const input = (type: number, value: MsgpackValue) => frontMessage([Buffer.from([type]), encoded(value)], layout);
const map = (values: Readonly<Record<string, MsgpackValue>>) => new Map(Object.entries(values)) as MsgpackValue;
const WHOLE: readonly MsgpackValue[] = ["r1", [1, 2], null, map({ temperature: new Float32(Math.fround(0.7)) })];

test("a request may be shorter or longer than the layout", () => {
  const expected = {
    type: "add",
    request: { request_id: "r1", prompt_token_ids: [1, 2], priority: 0, kv_hints: null },
  };
  expect(input(0, WHOLE)).toMatchObject(expected);
  const unknown = Array.from({ length: 30 }, (_, at) => WHOLE[at] ?? null);
  const numbers = [5, 11, 12, 13, 15, 19];
  const longer = unknown.map((one, at) => (numbers.includes(at) ? (at === 15 || at === 19 ? false : 0) : one));
  expect(input(0, [...longer, map({ later: true })])).toMatchObject(expected);
});

test("a 32-bit float has its short value", () => {
  expect(input(0, WHOLE)).toMatchObject({ request: { sampling_params: { temperature: 0.7, max_tokens: 16 } } });
});

test.each<[number, MsgpackValue, string]>([
  [0, [], "request_id: is missing"],
  [0, [5], "request_id: takes a text, not 5"],
  [0, map({}), "request: takes a list, not a map"],
  [0, ["r", ["x"]], "prompt_token_ids[0]: takes an integer below 2^53, not a text"],
  [0, ["r", [1.5]], "prompt_token_ids[0]: takes an integer below 2^53, not 1.5"],
  [0, ["r", [], null, map({ seed: map({}) })], "sampling_params.seed: takes an integer below 2^53, not a map"],
  [0, ["r", [], null, map({ top_p: null })], "sampling_params.top_p: takes a number, not null"],
  [
    0,
    ["r", [], null, map({ logit_bias: map({ a: 1 }) })],
    "sampling_params.logit_bias: takes an integer below 2^53, not a text",
  ],
  [1, [["r"]], "request_ids[0]: takes a text, not a list"],
  [2, [1], "wave[1]: takes an integer below 2^53, not null"],
  [3, [0, "x", "sleep", []], "call_id: takes an integer below 2^53, not a text"],
  [4, [], "no message of an input has the type 4"],
])("%# a message of type %i is refused: %j", (type, value, why) => {
  expect(() => input(type, value)).toThrow(why);
});

test("a pickle is refused, and its request can be answered", () => {
  const pickle = new Extension(1, Buffer.from("80049500", "hex"));
  const why = "not MessagePack at byte 12: extension type 1: a pickle, which could run code, is refused";
  expect(() => input(0, ["r", [], null, null, null, 0, null, null, null, pickle])).toThrow(
    new RequestError("r", 0, why),
  );
  expect(() => input(1, [pickle])).toThrow(MsgpackError);
});

test("a request with a wrong field can be answered, if its id and its process can be read", () => {
  const request = (client: MsgpackValue) => ["r", [1.5], ...Array(9).fill(null), client];
  expect(() => input(0, request(3))).toThrow(
    expect.objectContaining({ request_id: "r", client_index: 3, message: expect.stringContaining("[0]: takes") }),
  );
  expect(() => input(0, request("x"))).toThrow(
    new MessageError("client_index: takes an integer below 2^53, not a text"),
  );
});

test("frames that are missing or too long for a type are refused", () => {
  for (const frames of [[], [Buffer.from([0])], [Buffer.from([0, 0]), encoded([])]])
    expect(() => frontMessage(frames, layout)).toThrow("an input begins with a type byte and a body");
});

test("an init without addresses is refused, and unknown members are ignored", () => {
  expect(() => initMessage(encoded(map({})))).toThrow("addresses: takes a map, not null");
  const addresses = { inputs: ["tcp://a:1"], outputs: ["tcp://a:2"], later: 1 };
  expect(initMessage(encoded(map({ addresses: map(addresses) })))).toMatchObject({
    addresses: { inputs: ["tcp://a:1"], outputs: ["tcp://a:2"], coordinator_input: null },
  });
});

test("a negative count is written as 0, and a token that is no integer is not sent", () => {
  const writer = new OutputsWriter(layout);
  const output = { ...PLAIN_OUTPUT, request_id: "r", new_token_ids: [1], num_nans_in_logits: -1 };
  const [body] = writer.frames({ ...PLAIN_OUTPUTS, timestamp: 1, outputs: [output], wave_complete: -2 });
  const [, sent, , , , , wave] = decodeMsgpack(body!) as readonly MsgpackValue[];
  expect((sent as readonly (readonly MsgpackValue[])[])[0]![13]).toBe(0);
  expect(wave).toBe(0);
  const wrong = { ...output, new_token_ids: [null as unknown as number] };
  expect(() => writer.frames({ ...PLAIN_OUTPUTS, timestamp: 1, outputs: [wrong] })).toThrow(RangeError);
});

test("a value that would end a front end for good is not sent, and the next message is whole", () => {
  const writer = new OutputsWriter(layout);
  const numbers = { type: "<i4", shape: [2, 3], data: new Uint8Array(23) } as const;
  const send = (output: object, message: object = {}) => {
    const outputs = [{ ...PLAIN_OUTPUT, request_id: "r", new_token_ids: [1], ...output }];
    return writer.frames({ ...PLAIN_OUTPUTS, timestamp: 1, outputs, ...message });
  };
  const whole = Buffer.from(send({})[0]!);
  for (const [output, message] of [
    [{ finish_reason: 9 }, {}],
    [{ events: [{ type: 4, timestamp: 1 }] }, {}],
    [{ events: [{ type: 1 }] }, {}],
    [{ new_token_ids: [-5] }, {}],
    [{ stop_reason: -5 }, {}],
    [{ new_logprobs: { token_ids: numbers, logprobs: numbers, ranks: numbers } }, {}],
    [{}, { timestamp: Number.NaN }],
    [{}, { timestamp: null }],
    [{}, { utility_output: { call_id: 1, failure: null, result: null } }],
  ] as const) {
    expect(() => send(output, message)).toThrow(RangeError);
    expect(send({})[0]).toEqual(whole);
  }
});

test("the head of a map has the form of the struct's fields, like msgspec without defaults", () => {
  const writer = new MsgpackWriter();
  writer.map(2, 16);
  writer.map(2, 15);
  expect(writer.copy().toString("hex")).toBe("de000282");
});
