/**
 * Decodes the requests that a front end sends, with the defaults of the fields that it leaves out. Source: `EngineCoreRequest` in
 * `vllm/v1/engine/__init__.py` and `SamplingParams` in `vllm/sampling_params.py`, vLLM 0.33.0.
 */
import type { MsgpackMap, MsgpackValue } from "../../../wire/msgpack/values.ts";
import type { MessageLayout } from "./layouts.ts";
import {
  anyField,
  booleanField,
  integer64Field,
  integerField,
  jsonObjectField,
  jsonValue,
  listField,
  listFieldOf,
  type MapMember,
  MessageError,
  mapField,
  mapMember,
  nullableField,
  numberField,
  numbersByIntegerField,
  type ReadField,
  type ReadMembers,
  readMembers,
  textField,
} from "./read.ts";

const integers = listFieldOf(integerField);

/** Fields of the map, by their names on the wire, with vLLM's defaults. */
const SAMPLING = {
  temperature: mapMember(numberField, 1),
  top_p: mapMember(numberField, 1),
  top_k: mapMember(integerField, 0),
  min_p: mapMember(numberField, 0),
  presence_penalty: mapMember(numberField, 0),
  frequency_penalty: mapMember(numberField, 0),
  repetition_penalty: mapMember(numberField, 1),
  min_tokens: mapMember(integerField, 0),
  max_tokens: mapMember(nullableField(integerField), 16),
  seed: mapMember(nullableField(integer64Field), null),
  stop_token_ids: mapMember(nullableField(integers), []),
  logprobs: mapMember(nullableField(integerField), null),
  prompt_logprobs: mapMember(nullableField(integerField), null),
  logit_bias: mapMember(nullableField(numbersByIntegerField), null),
  allowed_token_ids: mapMember(nullableField(integers), null),
  structured_outputs: mapMember(nullableField(jsonObjectField), null),
  extra_args: mapMember(nullableField(jsonObjectField), null),
  repetition_detection: mapMember(nullableField(jsonObjectField), null),
  thinking_token_budget: mapMember(nullableField(integerField), null),
  skip_reading_prefix_cache: mapMember(nullableField(booleanField), null),
  /** Token that ends the sequence. Null: none does, as with `ignore_eos`. */
  _eos_token_id: mapMember(nullableField(integerField), null),
  /** Tokens that may not be sampled before `min_tokens`. */
  _all_stop_token_ids: mapMember(nullableField(integers), []),
  _bad_words_token_ids: mapMember(nullableField(listFieldOf(integers)), null),
} as const satisfies Readonly<Record<string, MapMember<unknown>>>;

export type SamplingParams = ReadMembers<typeof SAMPLING>;

export const samplingParams: ReadField<SamplingParams> = (value, path) => {
  const given = mapField(value, path);
  return readMembers(SAMPLING, (name) => given.get(name), path);
};

export interface LoraRequest {
  readonly name: string;
  /** At least 1. */
  readonly id: number;
  readonly path: string;
}

const loraRequest: ReadField<LoraRequest> = (value, path) => {
  const [name = null, id = null, folder = null] = listField(value, path);
  return {
    name: textField(name, `${path}[0]`),
    id: integerField(id, `${path}[1]`),
    path: textField(folder, `${path}[2]`),
  };
};

const REQUEST = {
  prompt_token_ids: mapMember(nullableField(integers), null),
  mm_features: mapMember(nullableField(listField), null),
  sampling_params: mapMember(nullableField(samplingParams), null),
  pooling_params: mapMember(nullableField(anyField), null),
  /** Seconds since 1970, on the front end's clock. */
  arrival_time: mapMember(numberField, 0),
  lora_request: mapMember(nullableField(loraRequest), null),
  cache_salt: mapMember(nullableField(textField), null),
  data_parallel_rank: mapMember(nullableField(integerField), null),
  prompt_embeds: mapMember(nullableField(anyField), null),
  prompt_is_token_ids: mapMember(nullableField(listFieldOf(booleanField)), null),
  /** Index of the output on which the front end waits for the answer. */
  client_index: mapMember(integerField, 0),
  current_wave: mapMember(integerField, 0),
  /** Lower values come first. */
  priority: mapMember(integerField, 0),
  trace_headers: mapMember(nullableField(jsonObjectField), null),
  resumable: mapMember(booleanField, false),
  /** The id that the client sees. */
  external_req_id: mapMember(nullableField(textField), null),
  reasoning_ended: mapMember(nullableField(booleanField), null),
  reasoning_parser_kwargs: mapMember(nullableField(jsonObjectField), null),
  abort_immediately: mapMember(booleanField, false),
  session_id: mapMember(nullableField(textField), null),
  kv_hints: mapMember(nullableField(jsonObjectField), null),
} as const satisfies Readonly<Record<Exclude<MessageLayout["request"][number], "request_id">, MapMember<unknown>>>;

export type EngineCoreRequest = ReadMembers<typeof REQUEST> & { readonly request_id: string };

/** A request with a wrong field, but with an id, so that the engine can answer it with an error. */
export class RequestError extends MessageError {
  constructor(
    readonly request_id: string,
    readonly client_index: number,
    message: string,
  ) {
    super(message);
  }
}

/** Returns what finds the element of a request by the name of its field. */
const finderOf = (value: MsgpackValue, layout: MessageLayout) => {
  const elements = listField(value, "request");
  return (name: string) => elements[(layout.request as readonly string[]).indexOf(name)];
};

function idOf(find: ReturnType<typeof finderOf>): string {
  const id = find("request_id");
  if (id === undefined) throw new MessageError("request_id: is missing");
  return textField(id, "request_id");
}

/**
 * Reads the array of a request. It may be shorter or longer than the layout. Throws a `RequestError`, or another `MessageError` if
 * the request has no id.
 */
export function engineCoreRequest(value: MsgpackValue, layout: MessageLayout): EngineCoreRequest {
  const find = finderOf(value, layout);
  const request_id = idOf(find);
  try {
    return { request_id, ...readMembers(REQUEST, find, "") };
  } catch (error) {
    if (error instanceof MessageError) throw requestError(value, layout, error.message);
    throw error;
  }
}

/** Returns the error for a request that cannot be read. Throws a `MessageError` if nobody can be told, because it has no id. */
export function requestError(value: MsgpackValue, layout: MessageLayout, message: string): RequestError {
  const find = finderOf(value, layout);
  const client = integerField(find("client_index") ?? REQUEST.client_index.otherwise, "client_index");
  return new RequestError(idOf(find), client, message);
}

/** Returns the adapter that a call of `add_lora` names. Throws a `MessageError`. */
export const loraOf = (value: unknown): LoraRequest => loraRequest(value as MsgpackValue, "lora_request");

/** A call of a function of the engine. */
export interface UtilityCall {
  readonly client_index: number;
  /** Number of the call, which the answer repeats. Python's front end sends integers beyond 2^53. */
  readonly call_id: number | bigint;
  readonly method: string;
  readonly args: readonly unknown[];
}

/** Returns the arguments of a call as JSON has them. */
export const utilityArgs = (value: MsgpackValue): readonly unknown[] => listField(value, "args").map(jsonValue);

/** Addresses that a front end sends when an engine joins. */
export interface EngineAddresses {
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly coordinator_input: string | null;
  readonly coordinator_output: string | null;
  readonly frontend_stats_publish_address: string | null;
}

const ADDRESSES = {
  inputs: mapMember(listFieldOf(textField), []),
  outputs: mapMember(listFieldOf(textField), []),
  coordinator_input: mapMember(nullableField(textField), null),
  coordinator_output: mapMember(nullableField(textField), null),
  frontend_stats_publish_address: mapMember(nullableField(textField), null),
} as const;

/** The answer of a front end to `HELLO`. */
export interface HandshakeInit {
  readonly addresses: EngineAddresses;
  readonly parallel_config: MsgpackMap;
}

export function handshakeInit(value: MsgpackValue): HandshakeInit {
  const given = mapField(value, "init");
  const addresses = mapField(given.get("addresses") ?? null, "addresses");
  return {
    addresses: readMembers(ADDRESSES, (name) => addresses.get(name), "addresses"),
    parallel_config: mapField(given.get("parallel_config") ?? new Map(), "parallel_config"),
  };
}
