/**
 * Limits the size of a request's data. `--http-max-input-size` limits JSON, raw input, decompressed bodies, and tensors from
 * JSON, each with its own message; binary tensors are not limited (`http_server.cc`, 2026). 2.51 does not have the option, so
 * that only the limit of bodies applies.
 */
import type { TritonHttpConfig } from "../config/triton-config.ts";
import { invalidArg, type TritonError } from "../model-config/status.ts";
import { asUnsigned, membersOf } from "../tensors/access.ts";
import { JsonMembers, type JsonNode } from "../tensors/json-nodes.ts";
import type { HttpCall } from "./call.ts";

export type InputLimits = Pick<TritonHttpConfig, "maxInputBytes" | "maxBodyBytes">;

/** Returns the largest input in bytes. */
export const mostInputBytes = ({ maxInputBytes, maxBodyBytes }: InputLimits): number => maxInputBytes ?? maxBodyBytes;

/** Returns the error for a limit. `what`: the message without the advice, which only versions with the option give. */
export function beyond(limits: InputLimits, what: (most: number) => string): TritonError {
  const advice = limits.maxInputBytes === null ? "" : " Use --http-max-input-size to increase the limit.";
  return invalidArg(`${what(mostInputBytes(limits))}${advice}`);
}

const tooLarge =
  (what: (bytes: number, most: number) => string) =>
  (bytes: number, limits: InputLimits): TritonError | null =>
    bytes <= mostInputBytes(limits) ? null : beyond(limits, (most) => what(bytes, most));

/** Returns the error for too much JSON, or null (`EVBufferToJson`). */
export const jsonTooLarge = tooLarge(
  (bytes, most) => `request JSON size of ${bytes} bytes exceeds the maximum allowed input size of ${most} bytes.`,
);

/** Returns the error for a raw input that is too long, or null (`EVBufferToRawInput`). */
export const rawTooLarge = tooLarge(
  (bytes, most) =>
    `Raw input has a byte_size (${bytes} bytes) that exceeds the maximum allowed value of ${most} bytes.`,
);

const INT64_MAX = 2n ** 63n - 1n;

/** Returns the error for a tensor whose dimensions overflow or that needs too many bytes, or null (`ParseJsonTritonIO`). */
export function tensorTooLarge(
  name: string,
  shape: readonly JsonNode[],
  elementBytes: number,
  limits: InputLimits,
): TritonError {
  const dims = shape.map((dim) => BigInt.asIntN(64, BigInt(asUnsigned(dim))));
  const unfit = (why: string) => invalidArg(`invalid shape for input '${name}': shape [${dims.join(",")}] ${why}`);
  let count = 1n;
  for (const dim of dims) {
    if (dim < 0n) return unfit("contains one or more invalid dimensions");
    count *= dim;
    if (count > INT64_MAX) return unfit(`causes total element count to exceed maximum size of ${INT64_MAX}`);
  }
  if (count * BigInt(elementBytes) > INT64_MAX)
    return invalidArg(
      `byte size overflow for input '${name}': element count (${count}) * data type size (${elementBytes}) exceeds maximum allowed size (${INT64_MAX})`,
    );
  return madeTooLarge(name, count * BigInt(elementBytes), limits);
}

/** Returns the error for a tensor from JSON that needs too many bytes. */
export const madeTooLarge = (name: string, bytes: bigint | number, limits: InputLimits): TritonError =>
  beyond(
    limits,
    (most) =>
      `JSON input '${name}' has a byte_size (${bytes} bytes) that exceeds the maximum allowed value of ${most} bytes.`,
  );

/** Returns the declared length of the body, or 0 if it is not declared. */
export const declaredBytes = (call: HttpCall): number => Number(call.header("content-length") ?? 0);

/** Largest body of requests for settings, the index or shared memory, because it is parsed in one go. */
const SETTINGS_BYTES_MOST = 65_536;

/** Reads such a body. The real server has only the general limit. */
export const settingsBody = (call: HttpCall): Promise<Uint8Array> =>
  jsonBody(call, (bytes, limits) =>
    bytes > SETTINGS_BYTES_MOST
      ? invalidArg(`request JSON size of ${bytes} bytes: a stand-in takes ${SETTINGS_BYTES_MOST} here`)
      : jsonTooLarge(bytes, limits),
  );

/** Most parameters, inputs, outputs or dimensions of a request, because some later work with them is done in one go. */
export const MEMBERS_MOST = 10_000;
/** Most bytes of an id, a name or a datatype, which errors and answers repeat. */
const NAME_BYTES_MOST = 65_536;

/** Returns the members of an object. Throws a `TritonError` if there are too many, or if it is not an object. */
export function fewMembers(value: JsonNode, most = MEMBERS_MOST): ReturnType<typeof membersOf> {
  if (value instanceof JsonMembers && value.size > most)
    throw invalidArg(`more than ${MEMBERS_MOST} parameters: a stand-in takes no more`);
  return membersOf(value);
}

/** Returns the list. Throws a `TritonError` if it is too long. `what`: a plural noun for the items, for the message. */
export function fewOf<T extends { readonly length: number }>(what: string, list: T): T {
  if (list.length > MEMBERS_MOST) throw invalidArg(`more than ${MEMBERS_MOST} ${what}: a stand-in takes no more`);
  return list;
}

/** Returns the text. Throws a `TritonError` if it is too long. */
export function shortName(what: string, text: string): string {
  if (text.length > NAME_BYTES_MOST)
    throw invalidArg(`'${what}' has ${text.length} bytes: a stand-in takes ${NAME_BYTES_MOST}`);
  return text;
}

/**
 * Reads a JSON body. Rejects with the `TritonError` that `refusal` returns for its length. If the length is declared, rejects before
 * the body arrives.
 */
export async function jsonBody(call: HttpCall, refusal = jsonTooLarge): Promise<Uint8Array> {
  const check = (bytes: number) => {
    const refused = refusal(bytes, call.around.config.overHttp);
    if (refused !== null) throw refused;
  };
  check(declaredBytes(call));
  const body = await call.body();
  check(body.length);
  return body;
}
