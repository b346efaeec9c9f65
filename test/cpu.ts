/** Measures CPU time of this thread, so that other processes on the machine do not change the result of a test. */
import { dlopen, FFIType, ptr } from "bun:ffi";

/** Clock id of Linux, from include/uapi/linux/time.h. */
const CLOCK_THREAD_CPUTIME_ID = 3;

const clock =
  process.platform === "linux"
    ? dlopen("libc.so.6", { clock_gettime: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 } }).symbols
    : null;
const time = new BigInt64Array(2);

/** Returns the CPU time that this thread has used, in microseconds. On other systems than Linux it returns elapsed time. */
function threadUs(): number {
  if (clock === null) return performance.now() * 1000;
  clock.clock_gettime(CLOCK_THREAD_CPUTIME_ID, ptr(time));
  return Number(time[0]) * 1e6 + Number(time[1]) / 1e3;
}

/**
 * Returns the CPU time of `act` in microseconds: the minimum of `runs` runs, because one run may include a garbage
 * collection.
 */
export function cpuUs(act: () => void, runs = 3): number {
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run < runs; run++) {
    const fromUs = threadUs();
    act();
    least = Math.min(least, threadUs() - fromUs);
  }
  return least;
}
