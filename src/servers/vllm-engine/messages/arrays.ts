/**
 * Writes arrays of numbers as vLLM's encoder does: type, shape and raw bytes. Source: `MsgpackEncoder` in
 * `vllm/v1/serial_utils.py`, vLLM 0.33.0.
 */
import type { WriteValue } from "./write.ts";

/** Data from this size on travels in a frame of its own (`VLLM_MSGPACK_ZERO_COPY_THRESHOLD`). */
const FRAME_BYTES_LEAST = 256;
/** Extension type of raw bytes. */
const RAW = 3;

/** Size of a number of each type. */
const BYTES_OF_NUMBER = 4;

export interface ArrayOfNumbers {
  /** Name of the type: numpy's for `"<i4"` and `"<f4"`, torch's for `"int32"` and `"float32"`. */
  readonly type: "<i4" | "<f4" | "int32" | "float32";
  readonly shape: readonly number[];
  /** The numbers row by row, in little-endian order. */
  readonly data: Uint8Array;
}

export const numberArray: WriteValue<ArrayOfNumbers> = ({ body, frames }, { type, shape, data }) => {
  const bytes = shape.reduce((product, size) => product * size, BYTES_OF_NUMBER);
  if (bytes !== data.length) throw new RangeError(`${type}[${shape}] takes ${bytes} bytes, not ${data.length}`);
  body.array(3);
  body.text(type);
  body.array(shape.length);
  for (const size of shape) body.int(size);
  // The message itself is frame 0.
  if (data.length >= FRAME_BYTES_LEAST) body.int(frames.push(data));
  else body.extension(RAW, data);
};
