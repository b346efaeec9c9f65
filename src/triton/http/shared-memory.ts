/**
 * Which regions of shared memory have clients registered? POSIX ones are files below /dev/shm, which are read and written in
 * place; CUDA's there are none. `shared_memory_manager.cc` (2026), in its words.
 */
import { closeSync, fstatSync, openSync, readSync, writeSync } from "node:fs";
import { invalidArg, TritonError } from "../config/status.ts";
import { asString, asUnsigned, documentOf, find } from "../tensors/access.ts";
import { toBytesText } from "../tensors/datatypes.ts";
import { rapidText } from "../tensors/tensor-json.ts";
import { type HandlerAnswer, type HttpCall, jsonAnswer } from "./call.ts";

interface Region {
  readonly name: string;
  readonly key: string;
  readonly offset: number;
  readonly bytes: number;
  readonly file: number;
}

/** Registered at once; each holds a descriptor. */
const REGIONS_MOST = 1024;
/** Where the system keeps shared memory. */
const FOLDER = "/dev/shm/";

export class SharedMemory {
  readonly #regions = new Map<string, Region>();

  get all(): readonly Region[] {
    return [...this.#regions.values()];
  }

  /** Throws a `TritonError`, as all below. */
  register(name: string, key: string, offset: number, bytes: number): void {
    if (this.#regions.has(name))
      throw new TritonError("ALREADY_EXISTS", `shared memory region '${name}' already in manager`);
    if (this.#regions.size >= REGIONS_MOST) throw invalidArg(`more than ${REGIONS_MOST} shared memory regions`);
    const file = opened(key);
    if (fstatSync(file).size < offset + bytes) {
      closeSync(file);
      throw invalidArg(`failed to register shared memory region '${name}': invalid args`);
    }
    this.#regions.set(name, { name, key, offset, bytes, file });
  }

  /** Nothing comes of a name that is not registered. null: all. */
  unregister(name: string | null): void {
    for (const region of this.all) {
      if (name !== null && region.name !== name) continue;
      closeSync(region.file);
      this.#regions.delete(region.name);
    }
  }

  check(name: string, offset: number, bytes: number): Region {
    const region = this.#regions.get(name);
    if (region === undefined) throw new TritonError("NOT_FOUND", `Unable to find shared memory region: '${name}'`);
    if (offset >= region.bytes) throw invalidArg(`Invalid offset for shared memory region: '${name}'`);
    if (offset + bytes > region.bytes)
      throw invalidArg(`Invalid offset + byte size for shared memory region: '${name}'`);
    return region;
  }

  read(name: string, offset: number, bytes: number): Uint8Array {
    const region = this.check(name, offset, bytes);
    const data = new Uint8Array(bytes);
    readSync(region.file, data, 0, bytes, region.offset + offset);
    return data;
  }

  write(name: string, offset: number, bytes: number, data: Uint8Array): void {
    const region = this.check(name, offset, bytes);
    if (data.length > bytes)
      throw invalidArg(
        `shared memory size specified with the request for output '${name}' (${bytes} bytes) should be at least ${data.length} bytes to hold the results`,
      );
    writeSync(region.file, data, 0, data.length, region.offset + offset);
  }
}

function opened(key: string): number {
  try {
    if (/\/.*\/|\.\./.test(key)) throw new Error("no key");
    return openSync(FOLDER + key.replace(/^\//, ""), "r+");
  } catch {
    throw new TritonError("INTERNAL", `Unable to open shared memory region: '${key}'`);
  }
}

const DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
/** What a handle of CUDA's comes to. */
const HANDLE_BYTES = 64;

/** `status`, `register` and `unregister`, below `/v2/systemsharedmemory` and `/v2/cudasharedmemory`. */
export const systemMemory = (call: HttpCall): Promise<HandlerAnswer> => handle(call, false);
export const cudaMemory = (call: HttpCall): Promise<HandlerAnswer> => handle(call, true);

async function handle(call: HttpCall, cuda: boolean): Promise<HandlerAnswer> {
  const [region, action] = call.found;
  const { memory, config } = call.around;
  if (action === "status") return jsonAnswer(status(memory, region ?? null, cuda));
  if (!config.clientSharedMemory) throw new TritonError("UNSUPPORTED", DISABLED);
  if (action === "unregister") {
    if (!cuda) memory.unregister(region ?? null);
    return jsonAnswer("");
  }
  if (region === undefined)
    throw invalidArg(`'region name' is necessary to register ${cuda ? "cuda" : "system"} shared memory region`);
  const body = (await call.body()) ?? new Uint8Array();
  const document = documentOf(body);
  if (cuda) {
    const handle = find(find(document, "raw_handle") ?? null, "b64");
    if (handle === undefined) throw invalidArg("Shared memory register request has no 'raw_handle' field");
    if (Buffer.from(asString(handle), "base64").length !== HANDLE_BYTES)
      throw invalidArg("'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t");
    throw invalidArg(`failed to register CUDA shared memory region: '${region}', GPUs not supported`);
  }
  const [key, offset, bytes] = ["key", "offset", "byte_size"].map((name) => find(document, name));
  if (key === undefined) throw invalidArg("Shared memory register request has no 'key' field");
  const name = asString(key);
  const from = offset === undefined ? 0 : Number(asUnsigned(offset));
  if (bytes === undefined) throw invalidArg("Shared memory register request has no 'byte_size' field");
  memory.register(region, name, from, Number(asUnsigned(bytes)));
  return jsonAnswer("");
}

function status(memory: SharedMemory, region: string | null, cuda: boolean): string {
  const shown = cuda ? [] : memory.all.filter(({ name }) => region === null || name === region);
  if (region !== null && shown.length === 0)
    throw new TritonError("NOT_FOUND", `Unable to find ${cuda ? "cuda" : "system"} shared memory region: '${region}'`);
  const texts = shown.map(
    ({ name, key, offset, bytes }) =>
      `{"name":${rapidText(toBytesText(name))},"key":${rapidText(toBytesText(key))},"offset":${offset},"byte_size":${bytes}}`,
  );
  return `[${texts.join(",")}]`;
}
