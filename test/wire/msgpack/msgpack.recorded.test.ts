/** Compares decoded MessagePack with the recorded messages of vLLM 0.33.0. */
import { expect, test } from "bun:test";
import { decodeMsgpack } from "../../../src/wire/msgpack/reader.ts";
import { Extension, Float32, type MsgpackValue } from "../../../src/wire/msgpack/values.ts";
import { bodyOf, RECORDED } from "../../servers/vllm-engine/recorded-frames.ts";

/** Returns a value as the recordings write it. */
function asRecorded(value: MsgpackValue): unknown {
  if (value instanceof Float32) return value.value;
  if (value instanceof Extension) return { $ext: value.type, hex: Buffer.from(value.data).toString("hex") };
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, one]) => [String(key), asRecorded(one)]));
  if (Array.isArray(value)) return value.map(asRecorded);
  return typeof value === "bigint" ? Number(value) : value;
}

test("every recorded frame is decoded to its recorded JSON", () => {
  const dead = RECORDED.filter(({ decoded }) => decoded === null);
  expect(dead.map((message) => bodyOf(message).toString())).toEqual(["ENGINE_CORE_DEAD", "ENGINE_CORE_DEAD"]);
  const found = RECORDED.filter(({ decoded }) => decoded !== null);
  for (const message of found) expect(asRecorded(decodeMsgpack(bodyOf(message)))).toEqual(message.decoded as never);
  expect(dead.length + found.length).toBe(174);
});
