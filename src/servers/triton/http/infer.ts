/** Implements `POST /v2/models/M/infer`. Source: `HandleInfer` in `http_server.cc` (2026), and answers observed on 2.51. */

import { andThen } from "../../../base/maybe-promise.ts";
import { atOnce, inTurns, isLarge, type Pieces } from "../../../base/pieces.ts";
import { zlib } from "../../../base/zlib.ts";
import { type GrpcEncoding, isEncoding, packedMessage } from "../../../wire/grpc/compression.ts";
import type { InferAnswer, RequestFields } from "../inference/request.ts";
import type { ModelVersion } from "../inference/served.ts";
import { isDecoupled } from "../model-config/model-config.ts";
import { HTTP_STATUS, internal, invalidArg, TritonError } from "../model-config/status.ts";
import type { VersionNumber } from "../models/table.ts";
import { versionNumber } from "../models/version-number.ts";
import {
  errorText,
  type HandlerAnswer,
  type HttpAnswer,
  type HttpCall,
  JSON_TYPE,
  jsonError,
  LATER,
  plain,
  plainError,
} from "./call.ts";
import { disturbed } from "./disturbed.ts";
import { bodyParts, type InferBody, inferBody, isLargeAnswer, shortBody, wholeBody } from "./infer-answer.ts";
import { type InferWish, inferWish, rawWish } from "./infer-body.ts";
import { declaredBytes, jsonTooLarge, rawTooLarge } from "./input-limit.ts";
import { unpackedBody } from "./unpacked-body.ts";

const HEAD_LENGTH = "inference-header-content-length";
const INT_MAX = 2 ** 31 - 1;

export function infer(call: HttpCall): HandlerAnswer | Promise<HandlerAnswer> {
  const [name = "", version] = call.found;
  const { server } = call.around;
  const number = versionNumber(version);
  const model = server.find(name, number);
  if (isDecoupled(model.config))
    throw new TritonError("UNSUPPORTED", "HTTP end point doesn't support models with decoupled transaction policy");
  const asked = { call, number, model };
  const refused = jsonTooLarge(declaredBytes(call), call.around.config.overHttp);
  // Refuse before the body arrives.
  if (refused !== null && isJsonAlone(call)) return jsonError(refused);
  return andThen(call.body(), unlessDisturbed, asked);
}

interface InferCall {
  readonly call: HttpCall;
  /** -1 means the latest version. */
  readonly number: VersionNumber;
  readonly model: ModelVersion;
}

function isJsonAlone(call: HttpCall): boolean {
  return (call.header("content-encoding") ?? "identity") === "identity" && call.header(HEAD_LENGTH) === null;
}

function unlessDisturbed(given: Uint8Array, asked: InferCall): HandlerAnswer | Promise<HandlerAnswer> {
  const { call } = asked;
  const encoding = call.header("content-encoding") ?? "identity";
  if (encoding !== "identity" && !isEncoding(encoding)) {
    const headers = { "Accept-Encoding": "gzip, deflate", "Content-Type": "text/plain" };
    return { ...plain(errorText("Unsupported compression type"), HTTP_STATUS.UNSUPPORTED), headers };
  }
  if (encoding !== "identity" && given.length === 0) return plainError(invalidArg("nothing to be decompressed"));
  const body = encoding === "identity" ? given : unpackedBody(given, call.around.config.overHttp, call.held);
  return andThen(body, withBody, asked);
}

function withBody(body: Uint8Array, asked: InferCall): HandlerAnswer | Promise<HandlerAnswer> {
  return andThen(disturbed(asked.call, body), inferUnless, asked, body);
}

/** `instead`: the answer that a plan of faults orders, or null. */
function inferUnless(
  instead: HandlerAnswer | null,
  asked: InferCall,
  body: Uint8Array,
): HandlerAnswer | Promise<HandlerAnswer> {
  if (instead !== null) return instead;
  const { call, model } = asked;
  const { server, config } = call.around;
  const { overHttp } = config;
  const head = headLength(call, body.length, server.facts.readsHeaderLength);
  const refused = head === 0 ? rawTooLarge(body.length, overHttp) : jsonTooLarge(head, overHttp);
  if (refused !== null) return jsonError(refused);
  if (head > 0 && isLarge(body)) return inferLarge(asked, body, head);
  try {
    return submitted(asked, head === 0 ? rawWish(body) : atOnce(inferWish(body, head, model.name, call.around)));
  } catch (error) {
    return jsonError(error);
  }
}

/** Handles a large body. `head`: bytes of JSON at its start. */
async function inferLarge(asked: InferCall, body: Uint8Array, head: number): Promise<HandlerAnswer> {
  const { call, model } = asked;
  const read = async () => {
    const wish = await inTurns(inferWish(body, head, model.name, call.around), call.around.turns);
    // Binary tensors are views of the body, so that it must stay.
    if (head === body.length) call.held.free(body);
    return wish;
  };
  try {
    return submitted(asked, await call.held.parse(head, read));
  } catch (error) {
    return jsonError(error);
  }
}

/** Starts the request. Throws a `TritonError`. */
function submitted({ call, number, model }: InferCall, wish: InferWish): typeof LATER {
  const encoding = bestEncoding(call.header("accept-encoding"));
  call.around.server.infer(model.name, number, withForwarded(call, wish.fields), {
    respond(answer) {
      if (answer === null) return;
      if (answer instanceof TritonError) {
        call.answer(plainError(answer));
        return;
      }
      if (isLargeAnswer(answer)) void answerInParts(call, inferBody(answer, model, wish), encoding);
      else call.answer(answered(answer, model, wish, encoding));
    },
  });
  return LATER;
}

/** Adds the parameters that headers set, after those of the request. */
function withForwarded(call: HttpCall, fields: RequestFields): RequestFields {
  const { forwards } = call.around;
  if (forwards === null) return fields;
  const parameters = [...fields.parameters];
  call.eachHeader((name, value) => {
    if (forwards(name)) parameters.push([name, value]);
  });
  return { ...fields, parameters };
}

async function answerInParts(call: HttpCall, making: Pieces<InferBody>, encoding: Encoding): Promise<void> {
  try {
    const made = await inTurns(making, call.around.turns);
    const whole = bodyParts(made);
    const parts = encoding === null ? whole : await packedParts(whole, encoding);
    const bytes = parts.reduce((sum, { length }) => sum + length, 0);
    call.answerParts({ status: 200, headers: headersOf(made.head, encoding) }, parts, bytes);
  } catch (error) {
    // No caller awaits this promise.
    call.answer(plainError(error instanceof TritonError ? error : internal("internal error")));
  }
}

/** Compresses the parts in threads of the runtime. */
async function packedParts(parts: readonly Uint8Array[], encoding: NonNullable<Encoding>): Promise<Uint8Array[]> {
  const packer = encoding === "gzip" ? zlib().createGzip() : zlib().createDeflate();
  const packed: Uint8Array[] = [];
  const { Readable } = process.getBuiltinModule("node:stream");
  for await (const part of Readable.from(parts).pipe(packer)) packed.push(part);
  return packed;
}

/** Returns the bytes of JSON at the start of the body. Throws a `TritonError`. */
function headLength(call: HttpCall, bytes: number, strict: boolean): number {
  const header = call.header(HEAD_LENGTH);
  if (header === null) return bytes;
  const [, digits] = /^\s*([+-]?\d+)/.exec(header) ?? [];
  if (digits === undefined && strict)
    throw invalidArg(`Unable to parse Inference-Header-Content-Length, got: ${header}`);
  const length = Number(digits ?? 0);
  if (strict && (length < -INT_MAX - 1 || length > INT_MAX))
    throw invalidArg(
      `Unable to parse Inference-Header-Content-Length, value is out of range [ ${-INT_MAX - 1}, ${INT_MAX} ], got: ${header}`,
    );
  if (length < 0 || length > bytes)
    throw invalidArg(`inference header size should be in range (0, ${bytes}), got: ${header}`);
  return length;
}

type Encoding = GrpcEncoding | null;

/** Returns the supported encoding with the largest weight. */
function bestEncoding(accepted: string | null): Encoding {
  if (accepted === null) return null;
  let best: { readonly name: Encoding; readonly weight: number } = { name: null, weight: 0 };
  for (const one of accepted.split(",")) {
    const [name = "", ...settings] = one.split(";").map((part) => part.trim());
    const weight = Number(settings.find((part) => part.startsWith("q="))?.slice(2) ?? 1);
    if (!(weight > best.weight)) continue;
    if (isEncoding(name)) best = { name, weight };
    else if (name === "identity") best = { name: null, weight };
  }
  return best.name;
}

const bytesOf = (body: string | Uint8Array) => (typeof body === "string" ? Buffer.from(body, "latin1") : body);

function answered(answer: InferAnswer, model: ModelVersion, wish: InferWish, encoding: Encoding): HttpAnswer {
  try {
    const made = shortBody(answer, model, wish);
    const { head, ascii } = made;
    const body = wholeBody(made);
    if (encoding === null && head === null) return { status: 200, headers: JSON_TYPE, body, ascii };
    return {
      status: 200,
      headers: headersOf(head, encoding),
      body: encoding === null ? body : packedMessage(bytesOf(body), encoding),
    };
  } catch (error) {
    return plainError(error);
  }
}

/** Returns the headers. `head`: bytes of JSON, or null if the whole body is JSON. */
const headersOf = (head: number | null, encoding: Encoding): Readonly<Record<string, string>> => ({
  "Content-Type": head === null ? "application/json" : "application/octet-stream",
  ...(encoding === null ? {} : { "Content-Encoding": encoding }),
  ...(head === null ? {} : { "Inference-Header-Content-Length": `${head}` }),
});
