/**
 * Prints measures of the structure of `src`:
 * - its folders, the imports that point up in the orders of ARCHITECTURE.md, and the cycles of value imports,
 * - the members of the largest configuration type, and of the type that a server receives,
 * - the files that a streaming chat passes from the socket's callback to the engine's queue.
 *
 * The files of a chat are measured in a run. A server with default options runs in this process, and each function of `src`
 * reports its file when it is called (function-calls.ts). A client sends the same chat 30 times over raw connections. The first
 * ten chats warm up the code.
 *
 * Recording starts with the socket's callback and ends when the fleet's `submit` queues the request. A file is entered when one
 * of its functions is called first. If it stands in another folder than the file entered before it, a change of folder is
 * counted. Code of other threads is not recorded. Functions of helpers count, too, so the number is larger than for a reader
 * who follows only the main calls.
 *
 * The first measurement found 85 files (66 for such a reader) and 24 changes between folders directly under `src`. Later,
 * callers began to test the fields of rare features, and files that are read together were merged. Since then the script finds
 * 42 files and 14 changes. `test/scripts/map-numbers.test.ts` limits both numbers. Of the 20 recorded lists of files the most
 * frequent one counts, because a timer may run in between. `--files` prints that list.
 */
import { readFileSync } from "node:fs";
import { bagMembers, circlesOf, configMembers, folderOf, roomOf, upwardImports } from "../test/tidy-rules.ts";
import { reporting } from "./function-calls.ts";

const root = new URL("../", import.meta.url).pathname;
const read = (path: string) => readFileSync(root + path, "utf8");
const files = [...new Bun.Glob("{src,assembly}/**/*.ts").scanSync({ cwd: root })]
  .sort()
  .map((path) => ({ path, text: read(path) }));

const folders = new Set(files.map(({ path }) => /^src\/([^/]+)\//.exec(path)?.[1]).filter(Boolean));
console.log(`folders directly under src: ${folders.size}`);
const upward = upwardImports(files, read("ARCHITECTURE.md"));
const isBetweenRooms = (arrow: string) => {
  const [from = "", to = ""] = arrow.split(" -> ").map(roomOf);
  return from !== to;
};
console.log(`imports upward between rooms: ${upward.filter(isBetweenRooms).length}`);
console.log(`imports upward between folders of a room: ${upward.filter((arrow) => !isBetweenRooms(arrow)).length}`);
const sources = files.filter(({ path }) => path.startsWith("src/"));
console.log(`cycles of value imports in src: ${circlesOf(sources).length}`);
const [largest] = [...configMembers(sources)].sort(([, a], [, b]) => b - a);
console.log(`members of the largest configuration type: ${largest?.[1]} (${largest?.[0]})`);
const { Kernel: received, ...others } = Object.fromEntries(bagMembers(sources));
const widest = (names: RegExp) =>
  Math.max(...Object.entries(others).map(([name, count]) => (names.test(name) ? count : 0)));
console.log(`members of what a server receives: ${received}, in the largest group ${widest(/^Kernel/)}`);
console.log(`members of the largest type that a server passes on: ${widest(/^(?!Kernel)/)}`);

const WARM_UP = 10;
const CHATS = 30;
const CHAT = JSON.stringify({
  messages: [{ role: "user", content: "Name three colours." }],
  stream: true,
  max_tokens: 4,
});
const REQUEST = `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${CHAT.length}\r\n\r\n${CHAT}`;

/** Source files whose code the recorded request has run so far, in order of their first call. Null while nothing is recorded. */
let way: Set<string> | null = null;
const ways: string[][] = [];
const transpiler = new Bun.Transpiler({ loader: "ts", target: "bun" });
Object.assign(globalThis, { calledIn: (path: string) => way?.add(path) });
Bun.plugin({
  name: "function calls",
  setup(build) {
    build.onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => {
      const code = transpiler.transformSync(readFileSync(path, "utf8"));
      return { contents: reporting(code, `calledIn("${path.slice(root.length)}")`), loader: "js" };
    });
  },
});

const { createRenewableApp } = await import("../src/app/create-app.ts");
const { resolveServeConfig } = await import("../src/cli/serve/resolve.ts");
const resolved = resolveServeConfig(["--port", "0", "--timing", "none"], {}, () => "");
if (!("config" in resolved)) throw new Error("the options are wrong");
const app = await createRenewableApp(resolved.config, { log: () => {} });
const { engines } = app;
const submit = engines.submit.bind(engines);
engines.submit = (generation, receiver) => {
  if (way) ways.push([...way]);
  way = null;
  return submit(generation, receiver);
};

/** Sends one chat and waits for the end of its stream. */
async function chat(isRecorded: boolean): Promise<void> {
  const ended = Promise.withResolvers<void>();
  let text = "";
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: Number(new URL(app.url).port),
    socket: {
      data(_, bytes) {
        text += bytes.toString();
        if (text.includes("[DONE]")) ended.resolve();
      },
    },
  });
  // Wait until the server has accepted the connection and is idle.
  await Bun.sleep(20);
  if (isRecorded) way = new Set();
  socket.write(REQUEST);
  await ended.promise;
  socket.end();
}

for (let i = 0; i < CHATS; i++) await chat(i >= WARM_UP);
await app.close(0);
const counts = Map.groupBy(ways, (entered) => entered.join("\n"));
const [usual = ""] = [...counts].sort(([, a], [, b]) => b.length - a.length)[0] ?? [];
const entered = usual.split("\n");
const changes = (placeOf: (path: string) => string) =>
  entered.filter((path, i) => i > 0 && placeOf(path) !== placeOf(entered[i - 1]!)).length;
const roomAndFolder = (path: string) => `${roomOf(path)}/${folderOf(path)}`;
const topFolder = (path: string) => path.split("/")[1]!;
if (process.argv.includes("--files")) console.log(usual);
console.log(`a streaming chat from the socket to the queue: ${entered.length} files`);
for (const [name, placeOf] of [
  ["folders directly under src", topFolder],
  ["rooms", roomOf],
  ["folders of rooms", roomAndFolder],
] as const)
  console.log(`  ${name}: ${new Set(entered.map(placeOf)).size} entered, ${changes(placeOf)} changes`);
process.exit(0);
