/**
 * Encodes the texts of prompts. A long text stays bytes on this thread: each copy of a text of 60 MB would block the event loop
 * for 15 ms.
 */
import { turn } from "../../../base/pieces.ts";
import { TaskLimiter } from "../../../wire/grpc/task-limiter.ts";
import type { ModelRequest } from "../behaviours/behaviour.ts";
import { textParts } from "../tensors/datatypes.ts";
import type { LlmDeps } from "./around.ts";

/** Longer texts are copied for the encoder's thread in parts of this size, one per turn of the event loop. */
const COPIED_BYTES = 2 ** 20;

/** Returns the bytes of each string of an input, or null if the input is missing or malformed. */
export function textBytesIn(request: ModelRequest, name: string): readonly Uint8Array[] | null {
  const tensor = request.inputs.get(name);
  return tensor === undefined ? null : textParts(tensor.data);
}

/** Returns the bytes of an input's first string, or no bytes if there is none. */
export const firstTextBytes = (request: ModelRequest, name: string): Uint8Array =>
  textBytesIn(request, name)?.[0] ?? NO_TEXT;
const NO_TEXT = new Uint8Array();

/** Decodes UTF-8. Invalid bytes become U+FFFD. */
export const decodedText = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString();

/** Returns the token ids of a prompt after the ids in `front`. Rejects like `Encoder.encode`. */
export async function encodeText(
  { text: { encoder }, backend }: Pick<LlmDeps, "text" | "backend">,
  bytes: Uint8Array,
  front: readonly number[] = [],
): Promise<Uint32Array> {
  if (bytes.length <= COPIED_BYTES || front.length > 0 || encoder.encodeUtf8 === undefined)
    return encoder.encode([...front, decodedText(bytes)], true, true);
  return copied.run(async () => {
    const copy = new Uint8Array(bytes.length);
    for (let at = 0; at < bytes.length; at += COPIED_BYTES) {
      copy.set(bytes.subarray(at, at + COPIED_BYTES), at);
      await turn(backend);
    }
    return encoder.encodeUtf8!(copy, true, true);
  });
}

/** Limits the copies to one at a time, because the encoder's thread handles one text at a time anyway. */
const copied = new TaskLimiter(1);
