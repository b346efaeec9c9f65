/**
 * Runs the warm-up requests of a model on each instance before clients arrive. They bypass scheduler, queue and cache, but
 * count like other requests. All instances warm up at the same time. Source: `GenerateWarmupData` and `WarmUp` in
 * `backend_model_instance.cc` (2026).
 */
import { existsSync, realpathSync } from "node:fs";
import { byRuns, inTurns, type Pieces, Stops } from "../../../base/pieces.ts";
import { instancesOf, type ModelConfig, maxBatchSize, type WarmupInput } from "../model-config/model-config.ts";
import { invalidArg, TritonError } from "../model-config/status.ts";
import { isWithin, missingFile, modelFile } from "../models/model-file.ts";
import { datatypeOf, ELEMENT_BYTES, elementCount, LENGTH_BYTES, shapeText } from "../tensors/datatypes.ts";
import type { ModelLoadDeps } from "./load.ts";
import { type InferInput, type InferReceiver, InferRequest, type RequestFields } from "./request.ts";
import type { Runner } from "./runner.ts";

/** `path`: the folder that contains the folder `warmup`. */
type WarmupDeps = Pick<ModelLoadDeps, "random" | "turns" | "shared"> & { readonly path: string };

/** One entry of `model_warmup`. */
interface WarmupSample {
  readonly name: string;
  /** Number of batches, which run one after the other. */
  readonly count: number;
  /** Number of requests per batch. Each request has batch size 1. */
  readonly batch: number;
  readonly request: (receiver: InferReceiver) => InferRequest;
}

/** Largest data file in bytes. */
const FILE_BYTES_MOST = 64 * 2 ** 20;
/** Most repetitions of an error that all requests of a batch have. The real server repeats it for every request. */
const SAID_MOST = 100;
/** Prefix of errors of a request without an id. */
const LOGGED = "[request id: <id_unknown>] ";
const NO_RECEIVER: InferReceiver = { respond() {} };

/** Warms up all instances. Rejects with a `TritonError` if data are missing or wrong, or if a response is an error. */
export async function warmUp(model: Runner, around: WarmupDeps): Promise<void> {
  const samples = await inTurns(samplesOf(model.config, around), around.turns);
  if (samples.length === 0) return;
  const runs = instancesOf(model.config).map(({ name }, at) =>
    runSamples(samples, around, (sample) => run(model, name, at, sample)),
  );
  const ends = await Promise.allSettled(runs);
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}

/** Creates the samples. Throws a `TritonError` if the model would refuse a request. Skips samples with batch size 0. */
function* samplesOf(config: ModelConfig, around: WarmupDeps): Pieces<WarmupSample[]> {
  const samples: WarmupSample[] = [];
  for (const { name = "", batch_size: batch = 0, count = 0, inputs = {} } of config.model_warmup ?? []) {
    if (batch === 0) continue;
    for (const [of, input] of Object.entries(inputs)) checkDims(of, input);
    const fields = yield* fieldsOf(config, inputs, around);
    const request = (receiver: InferReceiver) =>
      new InferRequest(config, fields, receiver, around.shared.facts.checksSequenceId);
    request(NO_RECEIVER);
    samples.push({ name, count: Math.max(1, count), batch, request });
  }
  return samples;
}

function* fieldsOf(
  config: ModelConfig,
  inputs: Readonly<Record<string, WarmupInput>>,
  around: WarmupDeps,
): Pieces<RequestFields> {
  const declaredInputs = new Set((config.input ?? []).map(({ name }) => name));
  const batch = maxBatchSize(config) === 0 ? [] : [1];
  const made: InferInput[] = [];
  for (const [name, input] of Object.entries(inputs)) {
    const { data_type: type = "", dims = [] } = input;
    const data = yield* dataOf(name, input, around);
    made.push({ name, datatype: datatypeOf(type), shape: [...batch, ...dims], data });
  }
  return {
    id: "",
    inputs: made.filter(({ name }) => declaredInputs.has(name)),
    // Tensors that the configuration does not declare as inputs, for example controls of sequences.
    overrides: made.filter(({ name }) => !declaredInputs.has(name)),
    outputs: [],
    parameters: [],
    priority: 0,
    timeoutUs: 0,
  };
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

function* dataOf(name: string, input: WarmupInput, { path, random }: WarmupDeps): Pieces<Uint8Array> {
  const { data_type: type = "TYPE_INVALID", dims = [], zero_data: zero, random_data: drawn } = input;
  const { input_data_file: file } = input;
  const datatype = datatypeOf(type);
  const isText = datatype === "BYTES";
  // Strings count as empty, so that only their length fields count.
  const bytes = elementCount(dims) * (isText ? LENGTH_BYTES : ELEMENT_BYTES[datatype]);
  if (file !== undefined) {
    const read = readData(path, file);
    if (isText) return read;
    // The real server omits the space as well.
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
 * Reads a file of the folder `warmup`. A file elsewhere is an error like a missing one, so that a configuration from a client
 * cannot find out which files exist on this machine.
 */
function readData(model: string, name: string): Uint8Array {
  const folder = `${model}/warmup`;
  const file = `${folder}/${name}`;
  const isThere = isWithin(folder, file) && existsSync(file) && isWithin(realpathSync(model), realpathSync(file));
  if (!isThere) throw missingFile(file);
  return new Uint8Array(modelFile(file, FILE_BYTES_MOST));
}

type RunSample = (sample: WarmupSample) => Promise<readonly string[]>;

async function runSamples(samples: readonly WarmupSample[], { turns }: WarmupDeps, runs: RunSample): Promise<void> {
  const stops = new Stops(turns);
  for (const sample of samples)
    for (let left = sample.count; left > 0; left--) {
      const errors = await runs(sample);
      if (errors.length > 0)
        throw invalidArg(
          `failed to run warmup sample '${sample.name}': ${errors.map((error) => `${error}; `).join("")}`,
        );
      await stops.look();
    }
}

/** Runs one batch of a sample on an instance. Returns the errors of its responses. */
async function run(model: Runner, name: string, at: number, { batch, request }: WarmupSample) {
  const most = maxBatchSize(model.config);
  // Backends reject such a batch. A model without batching accepts one request.
  if (batch > Math.max(1, most))
    return new Array(Math.min(batch, SAID_MOST)).fill(`batch size ${batch} for '${name}', max allowed is ${most}`);
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
