/**
 * Keeps the shared memory regions that clients have registered. POSIX regions are files in /dev/shm, read and written in place.
 * CUDA regions do not exist here. Source: `shared_memory_manager.cc` (2026), with its messages.
 */
import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from "node:fs";
import { internal, invalidArg, TritonError } from "../model-config/status.ts";

/** A tensor's position in a region. `offset` and `bytes` are in bytes. */
export interface MemoryPlace {
  readonly name: string;
  readonly offset: number;
  readonly bytes: number;
}

export interface MemoryRegion extends MemoryPlace {
  readonly key: string;
  readonly file: number;
}

/** Copies a part of a region. Throws a `TritonError`. */
export type MemoryReader = (place: MemoryPlace) => Uint8Array;

/** Largest total size of a request's inputs in shared memory. */
const READ_BYTES_MOST = 64 * 2 ** 20;
/** Most regions registered at the same time. Each keeps a file descriptor open. */
const REGIONS_MOST = 1024;
/** Folder in which Linux keeps POSIX shared memory. */
const FOLDER = "/dev/shm/";

export class SharedMemory {
  readonly #regions = new Map<string, MemoryRegion>();

  /** Returns the region with this name as a list. null: all regions. Like the methods below, throws a `TritonError`. */
  named(name: string | null): readonly MemoryRegion[] {
    const named = [...this.#regions.values()].filter((region) => name === null || region.name === name);
    if (name === null || named.length > 0) return named;
    throw new TritonError("NOT_FOUND", `Unable to find system shared memory region: '${name}'`);
  }

  /** Registers a region. */
  register(name: string, key: string, offset: number, bytes: number): void {
    if (this.#regions.has(name))
      throw new TritonError("ALREADY_EXISTS", `shared memory region '${name}' already in manager`);
    if (this.#regions.size >= REGIONS_MOST) throw invalidArg(`more than ${REGIONS_MOST} shared memory regions`);
    const file = openKey(key);
    if (sizeOf(file) < offset + bytes) {
      closeSync(file);
      throw invalidArg(`failed to register shared memory region '${name}': invalid args`);
    }
    this.#regions.set(name, { name, key, offset, bytes, file });
  }

  /** Removes a region; null removes all. Ignores unknown names. */
  unregister(name: string | null): void {
    for (const region of this.#regions.values()) {
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
    if (readSync(region.file, data, 0, bytes, region.offset + offset) < bytes) throw truncated(name);
    return data;
  }

  /**
   * Returns a reader for the inputs of one request, which share a size limit. The limit exists because inputs are copied here;
   * the real server reads them in place.
   */
  reader(): MemoryReader {
    let sum = 0;
    return ({ name, offset, bytes }) => {
      this.check(name, offset, bytes);
      sum += bytes;
      if (sum > READ_BYTES_MOST)
        throw invalidArg(`inputs of ${sum} bytes in shared memory: a stand-in takes ${READ_BYTES_MOST}`);
      return this.read(name, offset, bytes);
    };
  }

  /**
   * Writes an output into a region. Rejects data that exceeds the place, like the allocators in `http_server.cc` and
   * `infer_handler.cc`. `output`: the tensor's name, for the message.
   */
  write({ name, offset, bytes }: MemoryPlace, output: string, data: Uint8Array): void {
    const region = this.check(name, offset, bytes);
    if (data.length > bytes)
      throw internal(
        `shared memory size specified with the request for output '${output}' (${bytes} bytes) should be at least ${data.length} bytes to hold the results`,
      );
    const from = region.offset + offset;
    // Writing past the end would extend the file, which a memory mapping cannot do.
    if (sizeOf(region.file) < from + data.length) throw truncated(name);
    try {
      for (let at = 0; at < data.length; ) at += writeSync(region.file, data, at, data.length - at, from + at);
    } catch (error) {
      throw internal(`failed to write shared memory region '${name}': ${(error as { code?: string }).code}`);
    }
  }
}

/** Error for a file that a client has shortened. The real server would die from SIGBUS. */
const truncated = (name: string): TritonError => internal(`shared memory region '${name}' is shorter than registered`);

/** Size in bytes, or -1 for anything but a regular file, such as a FIFO, which cannot be mapped. */
function sizeOf(file: number): number {
  const stats = fstatSync(file);
  return stats.isFile() ? stats.size : -1;
}

/** Longest file name in bytes (NAME_MAX). */
const NAME_BYTES_MOST = 255;

/**
 * Opens the file of a key as glibc's `shm_open` does (2.39, `shm-directory.c`). Leading slashes do not count, the rest is one
 * name in /dev/shm, and a symbolic link is not followed. A FIFO does not block. Throws a `TritonError`.
 */
function openKey(key: string): number {
  const name = key.replace(/^\/+/, "");
  try {
    if (name === "" || name.includes("/") || Buffer.byteLength(name) > NAME_BYTES_MOST) throw new Error("EINVAL");
    return openSync(FOLDER + name, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    throw new TritonError("INTERNAL", `Unable to open shared memory region: '${key}'`);
  }
}

export const DISABLED_MEMORY =
  "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
