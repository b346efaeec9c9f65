/** Fuzzes the messages of a front end: spoiled recordings end in a message or an error, with CPU time and memory in proportion. */
import { expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { frontMessage } from "../../../../src/servers/vllm-engine/messages/incoming.ts";
import { LAYOUTS } from "../../../../src/servers/vllm-engine/messages/layouts.ts";
import { MessageError } from "../../../../src/servers/vllm-engine/messages/read.ts";
import { MsgpackError } from "../../../../src/wire/msgpack/reader.ts";
import { fuzz, mutated } from "../../../fuzz.ts";
import { RECORDED } from "../golden-frames.ts";

// A collection of the heap takes long in a process that other tests share.
setDefaultTimeout(60_000);

const INPUTS = RECORDED.filter(({ isFromEngine, socket }) => !isFromEngine && socket === "input");
const PART_BYTES = 16;
const partsOf = (bytes: Buffer) =>
  Array.from({ length: Math.ceil(bytes.length / PART_BYTES) }, (_, at) =>
    bytes.subarray(at * PART_BYTES, (at + 1) * PART_BYTES),
  );

test("any bytes of a message are read or refused", () => {
  const results = { read: 0, refused: 0 };
  const messages = fc
    .constantFrom(...INPUTS)
    .chain(({ frames: [type, body] }) => mutated(fc.constant([type!, ...partsOf(body!)])));
  fuzz(200, messages, { usPerByte: 5, usMore: 3000, memoryPerByte: 300, memoryMore: 16_384 }, () => (bytes) => {
    try {
      const message = frontMessage([bytes.subarray(0, 1), bytes.subarray(1)], LAYOUTS["0.33"]);
      results.read++;
      return message;
    } catch (error) {
      if (!(error instanceof MsgpackError || error instanceof MessageError)) throw error;
      results.refused++;
      return error.message;
    }
  });
  expect(results.read).toBeGreaterThan(20);
  expect(results.refused).toBeGreaterThan(20);
});
