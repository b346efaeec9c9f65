/**
 * Which regions of shared memory have clients registered? POSIX ones are files below /dev/shm, which are read and written in
 * place; CUDA's there are none. `shared_memory_manager.cc` (2026), in its words.
 */
import { closeSync, fstatSync, openSync, readSync, writeSync } from "node:fs";
import { internal, invalidArg, TritonError } from "../../repository/config/status.ts";

export interface MemoryRegion {
  readonly name: string;
  readonly key: string;
  readonly offset: number;
  readonly bytes: number;
  readonly file: number;
}

/** Where in a region a tensor stands. */
export interface MemoryPlace {
  readonly name: string;
  readonly offset: number;
  readonly bytes: number;
}

/** Registered at once; each holds a descriptor. */
const REGIONS_MOST = 1024;
/** Where the system keeps shared memory. */
const FOLDER = "/dev/shm/";

export class SharedMemory {
  readonly #regions = new Map<string, MemoryRegion>();

  get all(): readonly MemoryRegion[] {
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

  check(name: string, offset: number, bytes: number): MemoryRegion {
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

  /** `output`: the tensor's name. One that is too large is refused as the allocators of `http_server.cc` and `infer_handler.cc` do. */
  write({ name, offset, bytes }: MemoryPlace, output: string, data: Uint8Array): void {
    const region = this.check(name, offset, bytes);
    if (data.length > bytes)
      throw internal(
        `shared memory size specified with the request for output '${output}' (${bytes} bytes) should be at least ${data.length} bytes to hold the results`,
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

export const DISABLED_MEMORY =
  "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
