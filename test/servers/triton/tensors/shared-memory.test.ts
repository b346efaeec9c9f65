/** Keys of shared memory name regular files in /dev/shm only, and a file that changes after its registration is an error. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { SharedMemory } from "../../../../src/servers/triton/tensors/shared-memory.ts";

const outside = join(mkdtempSync(join(tmpdir(), "understudy-shm-")), "outside");
const own = mkdtempSync("/dev/shm/understudy-test-");
const prefix = basename(own);
const made: string[] = [own];

/** Makes a file, link or folder in /dev/shm by `make`, and returns its key. */
function keyOf(name: string, make: (path: string) => void): string {
  const path = `/dev/shm/${prefix}-${name}`;
  make(path);
  made.push(path);
  return `/${prefix}-${name}`;
}

const secret = "0123456789abcdef";
let regular = "";
beforeAll(() => {
  writeFileSync(outside, secret);
  writeFileSync(join(own, "inner"), secret);
  regular = keyOf("regular", (path) => writeFileSync(path, secret));
});
afterAll(() => {
  for (const path of made) rmSync(path, { recursive: true, force: true });
  rmSync(join(outside, ".."), { recursive: true });
});

const registered = (memory: SharedMemory, key: string) => {
  try {
    memory.register("r", key, 0, 16);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
};

test("a key is one name in /dev/shm, and a link is not followed", () => {
  const memory = new SharedMemory();
  const link = keyOf("link", (path) => symlinkSync(outside, path));
  const dangling = keyOf("dangling", (path) => symlinkSync(join(outside, "..", "new"), path));
  const within = keyOf("within", (path) => symlinkSync(`/dev/shm${regular}`, path));
  const keys = [link, dangling, within, `/${prefix}/inner`, `${prefix}/inner`, `/${prefix}/../${prefix}-regular`];
  const never = [
    "",
    "/",
    ".",
    "/.",
    "..",
    "/..",
    "/../tmp",
    `${regular}/`,
    `${regular}\0`,
    `/${"n".repeat(256)}`,
    `/${"ü".repeat(128)}`,
  ];
  for (const key of [...keys, ...never]) {
    expect([key, registered(memory, key)]).toEqual([key, `Unable to open shared memory region: '${key}'`]);
  }
  expect([memory.named(null), readFileSync(outside, "utf8"), existsSync(join(outside, "..", "new"))]).toEqual([
    [],
    secret,
    false,
  ]);
  expect(registered(memory, `//${regular}`)).toBeNull();
});

test("folders, FIFOs and devices are no regions; a hard link is, because it is a regular file of the same file system", () => {
  const memory = new SharedMemory();
  const folder = keyOf("folder", (path) => mkdirSync(path));
  expect(registered(memory, folder)).toBe(`Unable to open shared memory region: '${folder}'`);
  const fifo = keyOf("fifo", (path) => Bun.spawnSync(["mkfifo", path]));
  expect(registered(memory, fifo)).toBe("failed to register shared memory region 'r': invalid args");
  const socket = keyOf("socket", (path) => Bun.listen({ unix: path, socket: { data() {} } }).unref());
  expect(registered(memory, socket)).toBe(`Unable to open shared memory region: '${socket}'`);
  const hard = keyOf("hard", (path) => linkSync(`/dev/shm${regular}`, path));
  expect(registered(memory, hard)).toBeNull();
});

test("a file that is shorter than when it was registered is an error, for reading and writing, and stays as short", () => {
  const memory = new SharedMemory();
  const key = keyOf("short", (path) => writeFileSync(path, secret));
  expect(registered(memory, key)).toBeNull();
  truncateSync(`/dev/shm${key}`, 8);
  const shorter = "shared memory region 'r' is shorter than registered";
  expect(() => memory.read("r", 0, 16)).toThrow(shorter);
  expect(() => memory.write({ name: "r", offset: 4, bytes: 12 }, "y", new Uint8Array(12))).toThrow(shorter);
  expect(Buffer.from(memory.read("r", 0, 8)).toString()).toBe("01234567");
  memory.write({ name: "r", offset: 4, bytes: 4 }, "y", Buffer.from("good"));
  expect(readFileSync(`/dev/shm${key}`, "utf8")).toBe("0123good");
});

test("the inputs of a request have at most 64 MiB in shared memory", () => {
  const memory = new SharedMemory();
  const key = keyOf("large", (path) => {
    writeFileSync(path, "");
    truncateSync(path, 2 ** 34);
  });
  memory.register("large", key, 0, 2 ** 34);
  const most = 64 * 2 ** 20;
  const copy = memory.reader();
  expect(copy({ name: "large", offset: 5, bytes: most - 16 }).length).toBe(most - 16);
  expect(copy({ name: "large", offset: 0, bytes: 16 }).length).toBe(16);
  expect(() => copy({ name: "large", offset: 0, bytes: 1 })).toThrow("a stand-in takes 67108864");
  expect(() => memory.reader()({ name: "large", offset: 0, bytes: 2 ** 34 })).toThrow("a stand-in takes 67108864");
  memory.unregister(null);
});
