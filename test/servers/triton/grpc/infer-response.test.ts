/** Tests that our encoder writes the bytes of the library for any answer, and which fields of a request are read. */
import { expect, test } from "bun:test";
import { create, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { atOnce } from "../../../../src/base/pieces.ts";
import { AlikeResponses } from "../../../../src/servers/triton/grpc/alike-responses.ts";
import { type InferMessage, readInfer, wishOf } from "../../../../src/servers/triton/grpc/infer-request.ts";
import { ResponseWriter, responseHead } from "../../../../src/servers/triton/grpc/infer-response.ts";
import { ruleBody } from "../../../../src/servers/triton/grpc/rule-body.ts";
import type { InferParameters } from "../../../../src/servers/triton/inference/request.ts";
import { invalidArg } from "../../../../src/servers/triton/model-config/status.ts";
import {
  type Datatype,
  ELEMENT_BYTES,
  packTexts,
  toBytesText,
} from "../../../../src/servers/triton/tensors/datatypes.ts";
import { Real } from "../../../../src/servers/triton/tensors/json-nodes.ts";
import { SharedMemory } from "../../../../src/servers/triton/tensors/shared-memory.ts";
import type { ParameterValue } from "../../../../src/servers/triton/tensors/tensor-json.ts";
import { HeldMessages } from "../../../../src/wire/grpc/held-messages.ts";
import { MessageRoom } from "../../../../src/wire/protobuf/message-room.ts";
import { times } from "../../../size.ts";
import { messageNamed } from "../../../triton/descriptor.ts";

const text = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 12 }),
  fc.constant(""),
  fc.string({ minLength: 120, maxLength: 300 }),
);
const value = fc.oneof(
  fc.boolean(),
  text,
  fc.maxSafeInteger(),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.double().map((number) => new Real(number)),
);
const tensor = fc.record({
  name: text,
  datatype: fc.constantFrom(...(Object.keys(ELEMENT_BYTES) as Datatype[])),
  shape: fc.array(fc.oneof(fc.nat(200), fc.maxSafeInteger()), { maxLength: 40 }),
  data: fc.oneof(
    fc.uint8Array({ maxLength: 60 }),
    fc.nat(70_000).map((bytes) => new Uint8Array(bytes).fill(7)),
  ),
});
const answer = fc.record({
  model: text,
  version: text,
  id: text,
  error: text,
  parameters: fc
    .uniqueArray(fc.tuple(text, value), { selector: ([name]) => name, maxLength: 4 })
    .map((all) => all.filter(([name]) => name !== "__proto__")),
  final: fc.option(fc.boolean()),
  outputs: fc.array(tensor, { maxLength: 4 }),
});

type Answer = typeof answer extends fc.Arbitrary<infer T> ? T : never;

const choice = (given: ParameterValue) => {
  if (typeof given === "boolean") return { case: "boolParam", value: given };
  if (typeof given === "string") return { case: "stringParam", value: given };
  if (given instanceof Real) return { case: "doubleParam", value: given.value };
  return { case: "int64Param", value: BigInt(given) };
};

/** Returns the answer in the form of the library. */
function expected({ model, version, id, parameters, final, outputs }: Answer) {
  const all: (readonly [string, ParameterValue])[] = [
    ...parameters,
    ...(final === null ? [] : [["triton_final_response", final] as const]),
  ];
  return {
    modelName: model,
    modelVersion: version,
    id,
    parameters: Object.fromEntries(all.map(([name, given]) => [name, { parameterChoice: choice(given) }])),
    outputs: outputs.map(({ name, datatype, shape }) => ({ name, datatype, shape: shape.map(BigInt) })),
    rawOutputContents: outputs.map(({ data }) => data),
  };
}

test("unary and streamed answers equal the bytes of protobuf's library", () => {
  const writer = new ResponseWriter();
  const [unary, streamed] = [messageNamed("ModelInferResponse"), messageNamed("ModelStreamInferResponse")];
  fc.assert(
    fc.property(answer, (given) => {
      // The library keeps a map as an object, in which names that are numbers come first.
      fc.pre(given.parameters.every(([name]) => !/^\d+$/.test(name)));
      const { model, version, id, error, final, outputs } = given;
      const parameters = given.parameters.map(
        ([name, one]) => [toBytesText(name), typeof one === "string" ? toBytesText(one) : one] as const,
      );
      const parts = { head: responseHead(model, version, id), parameters, final, outputs };
      const whole = expected(given) as never;
      expect(Buffer.compare(written(writer, writer.response(parts)), toBinary(unary, create(unary, whole)))).toBe(0);
      const message = create(streamed, { errorMessage: error, inferResponse: create(unary, whole) } as never);
      expect(Buffer.compare(written(writer, writer.streamed(error, parts)), toBinary(streamed, message))).toBe(0);
    }),
    { numRuns: times(1000) },
  );
});

test("responses written from a shared prefix equal those written whole", () => {
  const [writer, other] = [new ResponseWriter(), new ResponseWriter()];
  // Only a few names, so that similar responses follow each other.
  const name = fc.constantFrom("", "a", "é".repeat(70));
  const data = fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.constantFrom(100, 120, 16_200, 16_400, 2_100_000).map(filled),
  );
  const datatype = fc.constantFrom<Datatype>("BYTES", "UINT8");
  const outputs = fc.array(fc.record({ name, datatype, shape: fc.array(fc.nat(1), { maxLength: 2 }), data }), {
    maxLength: 2,
  });
  const parameters = fc.constantFrom<InferParameters>([], [], [["p", 1]]);
  const responses = fc.array(
    fc.record({ parameters, final: fc.constantFrom(false, false, false, true, null), outputs }),
    { minLength: 1, maxLength: 12 },
  );
  fc.assert(
    fc.property(text, text, text, responses, (model, version, id, all) => {
      const head = responseHead(model, version, id);
      const alike = new AlikeResponses(writer);
      for (const one of [...all, ...all.slice(-1), ...all.slice(-1)]) {
        const parts = { head, ...one };
        expect(Buffer.compare(written(writer, alike.write(parts)), written(other, other.streamed("", parts)))).toBe(0);
      }
    }),
    { numRuns: times(500) },
  );
});

test("the head of responses without an id is kept for the next request; a client's id, which may be long, is not kept", () => {
  const head = (id: string) => responseHead("m", "1", id);
  expect(head("")).toBe(head(""));
  expect(head("a")).toEqual(head("a"));
  expect(head("a")).not.toBe(head("a"));
});

test("responses that differ in one text equal those written whole", () => {
  const [writer, other] = [new ResponseWriter(), new ResponseWriter()];
  const pieces = fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.constantFrom(100, 120, 16_200, 16_400, 70_000).map(filled),
  );
  const all = fc.array(pieces, { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(text, text, text, text, all, (model, version, id, name, texts) => {
      const head = responseHead(model, version, id);
      const like = { name, datatype: "BYTES" as const, shape: [1] };
      const before = writer.before({ head, parameters: [], final: false, outputs: [like] });
      for (const piece of texts) {
        const length = writer.streamedText(before, piece);
        const data = Buffer.alloc(4 + piece.length);
        data.writeUInt32LE(piece.length);
        data.set(piece, 4);
        const whole = other.streamed("", { head, parameters: [], final: false, outputs: [{ ...like, data }] });
        expect(Buffer.compare(written(writer, length), written(other, whole))).toBe(0);
      }
    }),
    { numRuns: times(500) },
  );
});
const written = (by: ResponseWriter, length: number) => by.bytes.subarray(5, length);
const filled = (length: number) => new Uint8Array(length).fill(97);

test("a large answer's buffer is released, and the next answer is correct", () => {
  const writer = new ResponseWriter();
  const unary = messageNamed("ModelInferResponse");
  for (const bytes of [3_000_000, 10, 3_000_000, 0]) {
    const outputs = [
      { name: "o", datatype: "UINT8" as const, shape: [bytes], data: new Uint8Array(bytes).fill(bytes % 200) },
    ];
    const parts = { head: responseHead("m", "1", ""), parameters: [], final: null, outputs };
    const own = {
      modelName: "m",
      modelVersion: "1",
      outputs: [{ name: "o", datatype: "UINT8", shape: [BigInt(bytes)] }],
      rawOutputContents: [outputs[0]!.data],
    };
    expect(Buffer.compare(written(writer, writer.response(parts)), toBinary(unary, create(unary, own as never)))).toBe(
      0,
    );
  }
});

const request = (init: object): InferMessage => {
  const type = messageNamed("ModelInferRequest");
  const bytes = toBinary(type, create(type, { modelName: "m", ...init } as never));
  return atOnce(readInfer(bytes, new MessageRoom(1000, new HeldMessages(1e6))));
};
const input = (more: object) => request({ inputs: [{ name: "i", datatype: "INT32", shape: [1n], ...more }] });
const parameter = (kind: string, given: unknown) => ({ parameterChoice: { case: kind, value: given } });
const region = (more: object) => ({ parameters: { shared_memory_region: parameter("stringParam", "r"), ...more } });

/** Refused requests with Triton's messages. Those in the recordings are tested elsewhere. */
const wrong: readonly (readonly [string, InferMessage, string])[] = [
  [
    "a sequence id of another kind",
    request({ parameters: { sequence_id: parameter("boolParam", true) } }),
    "invalid value type for 'sequence_id' parameter, expected int64_param or string_param.",
  ],
  [
    "a start of another kind",
    request({ parameters: { sequence_start: parameter("int64Param", 1n) } }),
    "invalid value type for 'sequence_start' parameter, expected bool_param.",
  ],
  [
    "an end of another kind",
    request({ parameters: { sequence_end: parameter("stringParam", "true") } }),
    "invalid value type for 'sequence_end' parameter, expected bool_param.",
  ],
  [
    "a priority below zero",
    request({ parameters: { priority: parameter("int64Param", -1n) } }),
    "invalid value for 'priority', expected value >= 0.",
  ],
  [
    "lists of two kinds",
    input({ contents: { intContents: [1], boolContents: [true] }, datatype: "BOOL" }),
    "unexpected explicit tensor data for input tensor 'i' for model 'm', binary data was already supplied.",
  ],
  [
    "a type that is none",
    input({ contents: { intContents: [1] }, datatype: "X" }),
    "unexpected explicit tensor data for input tensor 'i' for model 'm' of type 'INT32', expected datatype '<invalid>'",
  ],
  [
    "contents beside shared memory",
    input({ contents: {}, ...region({ shared_memory_byte_size: parameter("int64Param", 4n) }) }),
    "unexpected 'content' provided when using shared memory for input tensor 'i' for model 'm'",
  ],
  [
    "a region of another kind",
    input({ parameters: { shared_memory_region: parameter("int64Param", 1n) } }),
    "invalid value type for 'shared_memory_region' parameter for tensor 'i', expected string_param.",
  ],
  [
    "a region without its size",
    input(region({})),
    "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'i'",
  ],
  [
    "a size without its region",
    input({ parameters: { shared_memory_byte_size: parameter("int64Param", 1n) } }),
    "'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for tensor 'i'",
  ],
  [
    "an offset of another kind",
    input(region({ shared_memory_offset: parameter("boolParam", true) })),
    "invalid value type for 'shared_memory_offset' parameter for tensor 'i', expected int64_param.",
  ],
  [
    "a region that is not there",
    input(region({ shared_memory_byte_size: parameter("int64Param", -4n) })),
    "Unable to find shared memory region: 'r'",
  ],
  [
    "classes of another kind",
    request({ outputs: [{ name: "o", parameters: { classification: parameter("uint64Param", 1n) } }] }),
    "invalid value type for 'classification' parameter, expected int64_param",
  ],
  [
    "no classes",
    request({ outputs: [{ name: "o", parameters: { classification: parameter("int64Param", 0n) } }] }),
    "invalid value for 'classification' parameter, expected >= 0",
  ],
  [
    "classes in shared memory",
    request({
      outputs: [
        {
          name: "o",
          ...region({
            shared_memory_byte_size: parameter("int64Param", 4n),
            classification: parameter("int64Param", 1n),
          }),
        },
      ],
    }),
    "output can't set both 'shared_memory_region' and 'classification'",
  ],
];
test.each(wrong)("refused in Triton's words: %s", (_, message, words) => {
  expect(() => atOnce(wishOf(message, new SharedMemory()))).toThrow(invalidArg(words).message);
});

test("list elements become tensor data of their type", () => {
  const cases: readonly (readonly [Datatype, object, readonly number[]])[] = [
    ["BOOL", { boolContents: [true, false] }, [1, 0]],
    ["INT8", { intContents: [-1, 300] }, [255, 44]],
    ["INT16", { intContents: [-2] }, [254, 255]],
    ["INT32", { intContents: [-2] }, [254, 255, 255, 255]],
    ["INT64", { int64Contents: [-2n] }, [254, 255, 255, 255, 255, 255, 255, 255]],
    ["UINT8", { uintContents: [257] }, [1]],
    ["UINT16", { uintContents: [0x102] }, [2, 1]],
    ["UINT32", { uintContents: [2 ** 32 - 1] }, [255, 255, 255, 255]],
    ["UINT64", { uint64Contents: [2n ** 64n - 1n] }, new Array(8).fill(255)],
    ["FP32", { fp32Contents: [1] }, [0, 0, 128, 63]],
    ["FP64", { fp64Contents: [1] }, [0, 0, 0, 0, 0, 0, 240, 63]],
    ["BYTES", { bytesContents: [Uint8Array.of(97), new Uint8Array()] }, [1, 0, 0, 0, 97, 0, 0, 0, 0]],
    ["FP32", {}, []],
  ];
  for (const [datatype, contents, bytes] of cases) {
    const [made] = atOnce(wishOf(input({ datatype, contents }), new SharedMemory())).fields.inputs;
    expect([datatype, [...made!.data]]).toEqual([datatype, [...bytes]]);
  }
});

test("parameters keep their kinds, and a timeout below zero is a very long one", () => {
  const { fields, emptyFinal } = atOnce(
    wishOf(
      request({
        id: "7",
        parameters: {
          a: parameter("boolParam", true),
          b: parameter("int64Param", 2n ** 60n + 1n),
          c: parameter("stringParam", "é"),
          d: parameter("doubleParam", 2.5),
          e: parameter("int64Param", -5n),
          priority: parameter("uint64Param", 3n),
          timeout: parameter("int64Param", -1n),
          triton_enable_empty_final_response: parameter("boolParam", true),
          sequence_id: parameter("int64Param", -1n),
          sequence_start: parameter("boolParam", true),
        },
      }),
      new SharedMemory(),
    ),
  );
  expect(fields).toEqual({
    id: "7",
    inputs: [],
    outputs: [],
    parameters: [
      ["a", true],
      ["b", 2n ** 60n + 1n],
      ["c", toBytesText("é")],
      ["d", new Real(2.5)],
      ["e", -5],
    ],
    priority: 3,
    timeoutUs: 2 ** 64,
    sequence: { id: 2n ** 64n - 1n, start: true, end: false },
  });
  expect(emptyFinal).toBe(true);
});

test("fault rules see inputs and parameters by name, without unreadable ones", () => {
  const floats = Buffer.from(new Float32Array([0.7]).buffer);
  const raw = (name: string, datatype: string) => ({ name, datatype, shape: [1n] });
  const message = request({
    id: "one",
    parameters: { stream: parameter("boolParam", true), top_k: parameter("int64Param", 5n) },
    inputs: [
      raw("text_input", "BYTES"),
      { ...raw("shared", "INT32"), ...region({}) },
      raw("temperature", "FP32"),
      raw("seeds", "INT64"),
      raw("cut", "BYTES"),
      raw("half", "FP16"),
      raw("large", "UINT8"),
      { ...raw("flags", "BOOL"), contents: { boolContents: [true, false] } },
      { ...raw("wrong", "INT32"), contents: { fp32Contents: [1] } },
    ],
    rawInputContents: [
      packTexts([toBytesText("Grüße")]),
      floats,
      Buffer.from(new BigInt64Array([1n, -2n]).buffer),
      Uint8Array.of(9, 0, 0, 0),
      Uint8Array.of(0, 60),
      new Uint8Array(65_537),
    ],
  });
  expect(ruleBody(message)).toEqual({
    id: "one",
    stream: true,
    top_k: 5,
    text_input: "Grüße",
    temperature: 0.7,
    seeds: [1, -2],
    flags: [true, false],
  });
});
