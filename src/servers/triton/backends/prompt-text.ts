/**
 * Encodes the texts of prompts. A text of a tensor is bytes, and a long one stays bytes in this thread: a text of 60 MB
 * would take 15 ms each time that it is copied, in which the event loop does nothing else.
 */
import { turn } from "../../../base/pieces.ts";
import { AtATime } from "../../../wire/grpc/at-a-time.ts";
import type { ModelRequest } from "../behaviours/behaviour.ts";
import { textParts } from "../tensors/datatypes.ts";
import type { LlmAround } from "./around.ts";

/** Texts of more bytes are copied for the encoder's thread, so many bytes in a turn of the event loop. */
const COPIED_BYTES = 2 ** 20;

/** The bytes of the texts of an input; null: it did not come, or holds no texts. */
export function textBytesIn(request: ModelRequest, name: string): readonly Uint8Array[] | null {
  const tensor = request.inputs.get(name);
  return tensor === undefined ? null : textParts(tensor.data);
}

/** The bytes of the first text of an input; none if there is no text. */
export const firstTextBytes = (request: ModelRequest, name: string): Uint8Array =>
  textBytesIn(request, name)?.[0] ?? NO_TEXT;
const NO_TEXT = new Uint8Array();

/** The text of these bytes. What is not UTF-8 becomes U+FFFD. */
export const decodedText = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString();

/** The ids of a prompt, with `front` before it. Rejects as `Encoder.encode`. */
export async function encodeText(
  { text: { encoder }, backend }: Pick<LlmAround, "text" | "backend">,
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

/** The encoder's thread does one text at a time, so that the copies of others would only take memory. */
const copied = new AtATime(1);
