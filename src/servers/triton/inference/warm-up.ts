/**
 * What does each instance of a model compute before a client comes? `GenerateWarmupData` and `WarmUp` of `backend_model_instance.cc`
 * (2026): requests that go past scheduler, queue and cache, and count as any other. All instances are warmed at the same time.
 */
import { readFileSync, realpathSync, statSync } from "node:fs";
import { resolve, sep } from "node:path";
import { byRuns, type EventLoopTurns, inTurns, type Pieces, Stops } from "../../../base/pieces.ts";
import { instancesOf, type ModelConfig, maxBatchSize, type WarmupInput } from "../model-config/model-config.ts";
import { internal, invalidArg, TritonError } from "../model-config/status.ts";
import { datatypeOf, ELEMENT_BYTES, elementCount, LENGTH_BYTES, shapeText } from "../tensors/datatypes.ts";
import { type InferInput, type InferReceiver, InferRequest, type RequestFields } from "./request.ts";
import type { Runner } from "./runner.ts";

export interface WarmupAround {
  /** Where the folder `warmup` is. */
  readonly path: string;
  /** From 0 to below 1. */
  readonly random: () => number;
  readonly turns: EventLoopTurns;
  readonly checksSequenceId: boolean;
}

/** One entry of `model_warmup`. */
interface Sample {
  readonly name: string;
  /** Batches, one after the other. */
  readonly count: number;
  /** Requests in each, every one of batch 1. */
  readonly batch: number;
  readonly request: (receiver: InferReceiver) => InferRequest;
}

/** Bytes of a file of data, at most. */
const FILE_BYTES_MOST = 64 * 2 ** 20;
/** So often an error is said that all requests of a batch have; the real server says it for each. */
const SAID_MOST = 100;
/** Stands before what is wrong with a request that has no id. */
const LOGGED = "[request id: <id_unknown>] ";
const NOBODY: InferReceiver = { respond() {} };

/** Rejects with a `TritonError` where data are missing or wrong, or a response is an error. */
export async function warmUp(model: Runner, around: WarmupAround): Promise<void> {
  const samples = await inTurns(samplesOf(model.config, around), around.turns);
  if (samples.length === 0) return;
  const instances = instancesOf(model.config);
  const ends = await Promise.allSettled(instances.map(({ name }, at) => warmed(model, at, name, samples, around)));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}

/** Throws a `TritonError` where the model would not take a request of one. A batch of none is left out. */
function* samplesOf(config: ModelConfig, around: WarmupAround): Pieces<Sample[]> {
  const samples: Sample[] = [];
  for (const { name = "", batch_size: batch = 0, count = 0, inputs = {} } of config.model_warmup ?? []) {
    if (batch === 0) continue;
    for (const [of, input] of Object.entries(inputs)) checkDims(of, input);
    const fields = yield* fieldsOf(config, inputs, around);
    const request = (receiver: InferReceiver) => new InferRequest(config, fields, receiver, around.checksSequenceId);
    request(NOBODY);
    samples.push({ name, count: Math.max(1, count), batch, request });
  }
  return samples;
}

function* fieldsOf(
  config: ModelConfig,
  inputs: Readonly<Record<string, WarmupInput>>,
  around: WarmupAround,
): Pieces<RequestFields> {
  const own = new Set((config.input ?? []).map(({ name }) => name));
  const batch = maxBatchSize(config) === 0 ? [] : [1];
  const made: InferInput[] = [];
  for (const [name, input] of Object.entries(inputs)) {
    const { data_type: type = "", dims = [] } = input;
    const data = yield* dataOf(name, input, around);
    made.push({ name, datatype: datatypeOf(type), shape: [...batch, ...dims], data });
  }
  return {
    id: "",
    inputs: made.filter(({ name }) => own.has(name)),
    // Controls of sequences, say, which no client gives.
    overrides: made.filter(({ name }) => !own.has(name)),
    outputs: [],
    parameters: [],
    priority: 0,
    timeoutUs: 0,
  };
}

/** Bytes of one request's data; texts are counted as empty ones, which are nothing but their lengths. */
function bytesIn({ data_type: type = "TYPE_INVALID", dims = [] }: WarmupInput): number {
  const datatype = datatypeOf(type);
  return elementCount(dims) * (datatype === "BYTES" ? LENGTH_BYTES : ELEMENT_BYTES[datatype]);
}

function checkDims(name: string, input: WarmupInput): void {
  const { data_type: type = "TYPE_INVALID", dims = [] } = input;
  if (dims.some((dim) => dim < -1)) {
    const where = type === "TYPE_STRING" ? "in shape " : "";
    throw invalidArg(`tensor '${name}' contains an invalid dimension ${where}${shapeText(dims)}`);
  }
  if (dims.includes(-1) || type === "TYPE_INVALID")
    throw invalidArg(`warmup setting expects all variable-size dimensions are specified for input '${name}'`);
}

function* dataOf(name: string, input: WarmupInput, { path, random }: WarmupAround): Pieces<Uint8Array> {
  const { data_type: type, zero_data: zero, random_data: drawn, input_data_file: file } = input;
  const bytes = bytesIn(input);
  const isText = type === "TYPE_STRING";
  if (file !== undefined) {
    const read = readData(path, file);
    if (isText) return read;
    // Two words stand together in the real server, too.
    if (read.length < bytes)
      throw invalidArg(
        `${LOGGED}warmup setting expects ${bytes} bytes, but the data provided from ${file}only has ${read.length} bytes`,
      );
    return read.subarray(0, bytes);
  }
  if (zero === undefined && drawn === undefined)
    throw invalidArg(`${LOGGED}warmup setting expects input '${name}' to have input_data_type set`);
  const data = new Uint8Array(bytes);
  if (zero !== undefined || isText) return data;
  yield* byRuns(bytes, (from, to) => {
    for (let at = from; at < to; at++) data[at] = Math.floor(random() * 256);
  });
  return data;
}

/**
 * Reads a file of the folder `warmup`. A file elsewhere is an error like a missing one, so that a configuration which a client
 * sends cannot find out which files this machine has.
 */
function readData(model: string, name: string): Uint8Array {
  const folder = `${model}/warmup`;
  const file = `${folder}/${name}`;
  const found = isWithin(folder, file) ? statSync(file, { throwIfNoEntry: false }) : undefined;
  if (!found?.isFile() || !isWithin(realpathSync(model), realpathSync(file)))
    throw internal(`failed to open text file for read ${file}: No such file or directory`);
  if (found.size > FILE_BYTES_MOST)
    throw invalidArg(`${file} has ${found.size} bytes: a stand-in takes ${FILE_BYTES_MOST}`);
  return new Uint8Array(readFileSync(file));
}

const isWithin = (folder: string, file: string): boolean => resolve(file).startsWith(resolve(folder) + sep);

async function warmed(model: Runner, at: number, instance: string, samples: readonly Sample[], around: WarmupAround) {
  const stops = new Stops(around.turns);
  for (const sample of samples)
    for (let left = sample.count; left > 0; left--) {
      const errors = await run(model, at, instance, sample);
      if (errors.length > 0)
        throw invalidArg(
          `failed to run warmup sample '${sample.name}': ${errors.map((error) => `${error}; `).join("")}`,
        );
      await stops.look();
    }
}

/** Gives what its responses say of errors. */
async function run(
  model: Runner,
  at: number,
  instance: string,
  { batch, request }: Sample,
): Promise<readonly string[]> {
  const most = maxBatchSize(model.config);
  // So backends refuse a batch; a model without batches takes one request.
  if (batch > Math.max(1, most))
    return new Array(Math.min(batch, SAID_MOST)).fill(`batch size ${batch} for '${instance}', max allowed is ${most}`);
  const errors: string[] = [];
  const ended: Promise<void>[] = [];
  const requests = Array.from({ length: batch }, () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    ended.push(promise);
    return request({
      respond(answer, final) {
        if (answer instanceof TritonError) errors.push(answer.message);
        if (final) resolve();
      },
    });
  });
  ended.push(model.warmUp(at, requests));
  await Promise.all(ended);
  return errors;
}
