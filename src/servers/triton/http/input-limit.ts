/**
 * How large may be what a request brings? `--http-max-input-size` limits JSON, raw input, what is unpacked, and tensors that
 * are made from JSON, each with words of its own; binary tensors are as large as they are (`http_server.cc`, 2026). 2.51 has
 * no such option, and no limit but that of a body here.
 */
import type { TritonHttpConfig } from "../config/triton-config.ts";
import { invalidArg, type TritonError } from "../model-config/status.ts";
import { asUnsigned, membersOf } from "../tensors/access.ts";
import { JsonMembers, type JsonNode } from "../tensors/json-nodes.ts";
import type { HttpCall } from "./call.ts";

export type InputLimits = Pick<TritonHttpConfig, "maxInputBytes" | "maxBodyBytes">;

/** Bytes of an input at most. */
export const mostInputBytes = ({ maxInputBytes, maxBodyBytes }: InputLimits): number => maxInputBytes ?? maxBodyBytes;

/** `what`: all of the message but the advice, which only a version that has the option can give. */
export function beyond(limits: InputLimits, what: (most: number) => string): TritonError {
  const advice = limits.maxInputBytes === null ? "" : " Use --http-max-input-size to increase the limit.";
  return invalidArg(`${what(mostInputBytes(limits))}${advice}`);
}

/** null: so many bytes of JSON may be (`EVBufferToJson`). */
export function jsonTooLarge(bytes: number, limits: InputLimits): TritonError | null {
  if (bytes <= mostInputBytes(limits)) return null;
  return beyond(
    limits,
    (most) => `request JSON size of ${bytes} bytes exceeds the maximum allowed input size of ${most} bytes.`,
  );
}

/** null: raw input may be so long (`EVBufferToRawInput`). */
export function rawTooLarge(bytes: number, limits: InputLimits): TritonError | null {
  if (bytes <= mostInputBytes(limits)) return null;
  return beyond(
    limits,
    (most) => `Raw input has a byte_size (${bytes} bytes) that exceeds the maximum allowed value of ${most} bytes.`,
  );
}

const INT64_MAX = 2n ** 63n - 1n;

/** Why a tensor of JSON cannot be made: dimensions that cannot be counted, or too many bytes (`ParseJsonTritonIO`). */
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

/** A tensor that is made from JSON has too many bytes. */
export const madeTooLarge = (name: string, bytes: bigint | number, limits: InputLimits): TritonError =>
  beyond(
    limits,
    (most) =>
      `JSON input '${name}' has a byte_size (${bytes} bytes) that exceeds the maximum allowed value of ${most} bytes.`,
  );

/** As the client declares it; 0: it does not. */
export const declaredBytes = (call: HttpCall): number => Number(call.header("content-length") ?? 0);

/** Most bytes of a body that changes settings, asks for the index, or names shared memory: it is read in one go. */
const SETTINGS_BYTES_MOST = 65_536;

/** As `jsonBody`, of a request whose body is always short. The real server has no other limit than that of all bodies. */
export async function settingsBody(call: HttpCall): Promise<Uint8Array> {
  const refused = (bytes: number) =>
    invalidArg(`request JSON size of ${bytes} bytes: a stand-in takes ${SETTINGS_BYTES_MOST} here`);
  const declared = declaredBytes(call);
  if (declared > SETTINGS_BYTES_MOST) throw refused(declared);
  const body = await jsonBody(call);
  if (body.length > SETTINGS_BYTES_MOST) throw refused(body.length);
  return body;
}

/** Most parameters, inputs, outputs or dimensions of a request: later work with them is done in one go. */
export const MEMBERS_MOST = 10_000;
/** Most bytes of an id, a name or a datatype, which errors and answers repeat. */
const NAME_BYTES_MOST = 65_536;

/** The members of an object. Throws a `TritonError` if there are more than a stand-in takes, or it is no object. */
export function fewMembers(value: JsonNode, most = MEMBERS_MOST): ReturnType<typeof membersOf> {
  if (value instanceof JsonMembers && value.size > most)
    throw invalidArg(`more than ${MEMBERS_MOST} parameters: a stand-in takes no more`);
  return membersOf(value);
}

/** The list, if it is no longer than a stand-in takes. Throws a `TritonError` otherwise. `what`: of what, in the plural. */
export function fewOf<T extends { readonly length: number }>(what: string, list: T): T {
  if (list.length > MEMBERS_MOST) throw invalidArg(`more than ${MEMBERS_MOST} ${what}: a stand-in takes no more`);
  return list;
}

/** The text, if it is no longer than a stand-in takes. Throws a `TritonError` otherwise. */
export function shortName(what: string, text: string): string {
  if (text.length > NAME_BYTES_MOST)
    throw invalidArg(`'${what}' has ${text.length} bytes: a stand-in takes ${NAME_BYTES_MOST}`);
  return text;
}

/** A body that is JSON. Rejects with a `TritonError` where it is too large: before it comes, where its length is declared. */
export async function jsonBody(call: HttpCall): Promise<Uint8Array> {
  const { overHttp } = call.around.config;
  const declared = jsonTooLarge(declaredBytes(call), overHttp);
  if (declared !== null) throw declared;
  const body = await call.body();
  const come = jsonTooLarge(body.length, overHttp);
  if (come !== null) throw come;
  return body;
}
