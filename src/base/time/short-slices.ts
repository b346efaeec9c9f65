/**
 * Shortens the time slices of a thread, so that the loop gets the processor sooner. The kernel lets a running thread finish
 * a slice, 2.8 ms on two processors, before it runs a thread that has woken. A thread that asked for shorter slices runs
 * sooner (Linux 6.12 and later, EEVDF: `sched_setattr` with a runtime). The shares of the processor do not change.
 */
import { dlopen, FFIType, ptr } from "bun:ffi";

const SLICE_NS = 500_000n;
/** By processor: numbers of `sched_setattr` and `sched_getattr`. */
const CALLS: Readonly<Partial<Record<NodeJS.Architecture, readonly [set: number, get: number]>>> = {
  x64: [314, 315],
  arm64: [274, 275],
};
/** `struct sched_attr` in its first version, and where its members lie. */
const ATTR_BYTES = 48;
const POLICY = 4;
const FLAGS = 8;
const RUNTIME = 24;
const SCHED_OTHER = 0;
/** Flag by which new threads and processes get the default slices. */
const RESET_ON_FORK = 1n;

/** Has the calling thread's slices shortened; false: this system does not do that, or the thread is scheduled in another way. */
export function shortenSlices(): boolean {
  const calls = process.platform === "linux" ? CALLS[process.arch] : undefined;
  if (calls === undefined) return false;
  try {
    const { i64, i32, u32, pointer } = FFIType;
    const { symbols, close } = dlopen("libc.so.6", {
      syscall: { args: [i64, i32, pointer, u32, u32], returns: i64 },
    });
    const [set, get] = calls;
    const bytes = new DataView(new ArrayBuffer(ATTR_BYTES));
    const call = (number: number, size: number) => Number(symbols.syscall(number, 0, ptr(bytes.buffer), size, 0)) === 0;
    const isOther = call(get, ATTR_BYTES) && bytes.getUint32(POLICY, true) === SCHED_OTHER;
    bytes.setBigUint64(FLAGS, bytes.getBigUint64(FLAGS, true) | RESET_ON_FORK, true);
    bytes.setBigUint64(RUNTIME, SLICE_NS, true);
    const isSet = isOther && call(set, 0);
    close();
    return isSet;
  } catch {
    // Another C library.
    return false;
  }
}
