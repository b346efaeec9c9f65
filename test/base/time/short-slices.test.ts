/** Tests that shorter scheduler slices apply to the calling thread and to the alarm's thread, and change nothing else. */
import { expect, test } from "bun:test";

const HOST = new URL("../../../src/base/", import.meta.url).pathname;
/** Program that shortens its slices and prints the kernel's attributes of its threads (`struct sched_attr`). */
const CHILD = `
import { dlopen, ptr } from "bun:ffi";
import { readdirSync } from "node:fs";
import { getPriority, setPriority } from "node:os";
import { createAlarm } from ${JSON.stringify(`${HOST}time/alarm.ts`)};
import { wallUs } from ${JSON.stringify(`${HOST}clock.ts`)};
import { shortenSlices } from ${JSON.stringify(`${HOST}time/short-slices.ts`)};
const { syscall } = dlopen("libc.so.6", { syscall: { args: ["i64", "i32", "ptr", "u32", "u32"], returns: "i64" } }).symbols;
const attributes = (thread = 0) => {
  const bytes = new DataView(new ArrayBuffer(48));
  syscall(process.arch === "x64" ? 315 : 275, thread, ptr(bytes.buffer), 48, 0);
  return { policy: bytes.getUint32(4, true), nice: bytes.getInt32(16, true), sliceNs: Number(bytes.getBigUint64(24, true)) };
};
const short = () => readdirSync("/proc/self/task").filter((thread) => attributes(Number(thread)).sliceNs === 500_000).length;
const alarm = await new Promise((rang) => {
  const made = createAlarm(() => rang(made));
  made.order(wallUs() + 10_000);
});
const threads = short();
alarm.close();
setPriority(3);
const before = attributes();
const done = shortenSlices();
console.log(JSON.stringify({ threads, before, done, after: attributes(), priority: getPriority() }));
`;

/** Runs the program. Null if it fails. The attributes need Linux 6.12, glibc, and an x64 or arm64 processor. */
async function seen() {
  const child = Bun.spawn([process.execPath, "-e", CHILD], { stdout: "pipe", stderr: "ignore" });
  const [text, code] = await Promise.all([child.stdout.text(), child.exited]);
  return code === 0 ? JSON.parse(text) : null;
}

const found = process.platform === "linux" && ["x64", "arm64"].includes(process.arch) ? await seen() : null;

test.skipIf(found === null || found.before.sliceNs === 0)(
  "slices become half a millisecond, nice value and policy stay, and the alarm's thread shortens its own",
  () => {
    const { threads, before, done, after, priority } = found;
    expect(threads).toBe(1);
    expect(before).toEqual({ policy: 0, nice: 3, sliceNs: expect.any(Number) });
    expect(before.sliceNs).toBeGreaterThan(500_000);
    expect([done, after, priority]).toEqual([true, { ...before, sliceNs: 500_000 }, 3]);
  },
);
