/**
 * Decodes what front ends and coordinators send to an engine's input. Each message has a type byte, a MessagePack value, and
 * further frames with large arrays. Source: `EngineCoreRequestType` in `vllm/v1/engine/__init__.py`, vLLM 0.33.0.
 */
import { decodeMsgpack, MsgpackError } from "../../../wire/msgpack/reader.ts";
import type { MsgpackValue } from "../../../wire/msgpack/values.ts";
import type { MessageLayout } from "./layouts.ts";
import { integer64Field, integerField, listField, listFieldOf, MessageError, textField } from "./read.ts";
import {
  type EngineCoreRequest,
  engineCoreRequest,
  type HandshakeInit,
  handshakeInit,
  requestError,
  type UtilityCall,
  utilityArgs,
} from "./request.ts";

enum RequestType {
  Add = 0,
  Abort = 1,
  StartDpWave = 2,
  Utility = 3,
}

export type FrontMessage =
  | { readonly type: "add"; readonly request: EngineCoreRequest }
  | { readonly type: "abort"; readonly request_ids: readonly string[] }
  /** `exclude_rank`: the rank that needs no waking. */
  | { readonly type: "start_dp_wave"; readonly wave: number; readonly exclude_rank: number }
  | { readonly type: "utility"; readonly call: UtilityCall };

const RUNS_CODE = "a pickle, which could run code, is refused";
/** Extension types of vLLM's encoder that contain pickled objects and functions. */
const PICKLES: ReadonlyMap<number, string> = new Map([
  [1, RUNS_CODE],
  [2, RUNS_CODE],
]);

const decoded = (frame: Uint8Array): MsgpackValue => decodeMsgpack(frame, PICKLES);

/** Decodes a request. If it has a pickle, throws a `RequestError`, so that it can be answered. */
function addedRequest(body: Uint8Array, layout: MessageLayout): EngineCoreRequest {
  try {
    return engineCoreRequest(decoded(body), layout);
  } catch (error) {
    if (error instanceof MsgpackError) throw requestError(decodeMsgpack(body), layout, error.message);
    throw error;
  }
}

/** Decodes a message of the input socket. Throws a `MsgpackError` or a `MessageError`, for a request with an id a `RequestError`. */
export function frontMessage(frames: readonly Uint8Array[], layout: MessageLayout): FrontMessage {
  const [type, body] = frames;
  if (type?.length !== 1 || body === undefined)
    throw new MessageError(`an input begins with a type byte and a body, not with ${frames.length} frames`);
  if (type[0] === RequestType.Add) return { type: "add", request: addedRequest(body, layout) };
  const value = decoded(body);
  switch (type[0]) {
    case RequestType.Abort:
      return { type: "abort", request_ids: listFieldOf(textField)(value, "request_ids") };
    case RequestType.StartDpWave: {
      const [wave = null, rank = null] = listField(value, "wave");
      return {
        type: "start_dp_wave",
        wave: integerField(wave, "wave[0]"),
        exclude_rank: integerField(rank, "wave[1]"),
      };
    }
    case RequestType.Utility: {
      const [client = null, id = null, method = null, args = []] = listField(value, "call");
      const call = {
        client_index: integerField(client, "client_index"),
        call_id: integer64Field(id, "call_id"),
        method: textField(method, "method"),
        args: utilityArgs(args),
      };
      return { type: "utility", call };
    }
    default:
      throw new MessageError(`no message of an input has the type ${type[0]}`);
  }
}

/** Decodes the front end's answer on the handshake socket. Throws a `MsgpackError` or a `MessageError`. */
export const initMessage = (frame: Uint8Array): HandshakeInit => handshakeInit(decoded(frame));
