/**
 * Shortens the time slices of the calling thread, so that it gets a processor sooner after it wakes. The kernel lets a running
 * thread finish its slice, 2.8 ms on two processors, before it runs a thread that has woken. A thread with shorter slices is
 * run sooner (Linux 6.12 and later, EEVDF: `sched_setattr` with a runtime). Its portion of the processor time stays the same.
 */
import { dlopen, FFIType, ptr } from "bun:ffi";

const SLICE_NS = 500_000n;
/** Numbers of the system calls `sched_setattr` and `sched_getattr`, by processor architecture. */
const CALLS: Readonly<Partial<Record<NodeJS.Architecture, readonly [set: number, get: number]>>> = {
  x64: [314, 315],
  arm64: [274, 275],
};
/** Size of `struct sched_attr` in its first version. The next constants are offsets of its members. */
const ATTR_BYTES = 48;
const POLICY = 4;
const FLAGS = 8;
const RUNTIME = 24;
const SCHED_OTHER = 0;
/** Flag of `struct sched_attr`: new threads and processes get slices of the default length. */
const RESET_ON_FORK = 1n;

/**
 * Shortens the slices of the calling thread. Returns false if the system cannot, or if the thread has another scheduling
 * policy.
 */
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
    // `libc.so.6` cannot be loaded, because the system has another C library.
    return false;
  }
}
