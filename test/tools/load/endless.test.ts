/** Tests that `load` and `check` keep only a bounded part of endless answers and end with a reason. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { ENDLESS, type EndlessServer, endlessServer, watched } from "./endless-server.ts";

setDefaultTimeout(60_000);
const CHAT = "/v1/chat/completions";
/** Endless answers of APIs other than chat. */
const APIS: Readonly<Record<string, readonly [backend: string, path: string]>> = {
  "deltas of a response": ["openai-responses", "/v1/responses"],
  "deltas of a message": ["anthropic-messages", "/v1/messages"],
  "an embedding": ["openai-embeddings", "/v1/embeddings"],
};
const LOAD = ["--model", "m", "--num-prompts", "4", "--concurrency", "4", "--input-len", "4"];
/**
 * Memory that a reader may take in addition to the program's usual memory, including garbage. The server sends up to 3,200 MB.
 */
const HELD_MB_MOST = 400;
/** Limit of megabytes that a client reads of one answer. A client above it would never stop reading. */
const READ_MB_MOST = 100;
let usualMb = 0;

const load = (server: EndlessServer, ...more: string[]) =>
  watched("load", "--url", server.url, ...LOAD, "--timeout", "20", "--no-server-metrics", ...more);

beforeAll(async () => {
  const server = endlessServer({});
  usualMb = (await load(server)).peakMb;
  server.stop();
  expect(usualMb).toBeGreaterThan(20);
});

let server: EndlessServer | null = null;
afterAll(() => server?.stop());

test.each(Object.keys(ENDLESS))("load ends with a reason if a server sends %s endlessly", async (name) => {
  const [backend, path] = APIS[name] ?? ["openai-chat", CHAT];
  server = endlessServer({ [path]: ENDLESS[name]! });
  const { code, err, peakMb } = await load(server, "--backend", backend);
  server.stop();
  expect({ name, code, err }).toMatchObject({ code: 1, err: expect.stringContaining("no request was answered") });
  expect(err).not.toContain("no end after");
  expect(server.sentMb(), name).toBeLessThan(READ_MB_MOST);
  expect(peakMb - usualMb, name).toBeLessThan(HELD_MB_MOST);
});

test.each([
  ["/v1/models", [], 2, "/v1/models: an answer of more than 16 MiB"],
  ["/tokenize", [], 1, "no request was answered"],
  ["/metrics", [], 1, "no request was answered"],
] as const)("load ends where %s has no end", async (path, more, code, says) => {
  server = endlessServer({ [path]: ["HTTP/1.1 200 OK\r\n\r\n", Buffer.alloc(1 << 20, "a")] });
  const words = path === "/metrics" ? [] : ["--no-server-metrics"];
  const found = await watched("load", "--url", server.url, ...LOAD.slice(2), "--timeout", "20", ...words, ...more);
  server.stop();
  expect(found).toMatchObject({ code, err: expect.stringContaining(says) });
  expect(found.peakMb - usualMb).toBeLessThan(HELD_MB_MOST);
});

test("check ends if a page is endless", async () => {
  const endless = [
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
    Buffer.alloc(1 << 20, "# HELP a b\n"),
  ] as const;
  server = endlessServer({ "/metrics": endless });
  const page = await watched("check", `${server.url}/metrics`);
  expect(page).toMatchObject({ code: 2, out: expect.stringContaining("more than 16 MiB of text") });
  server.stop();
  expect(page.peakMb - usualMb).toBeLessThan(HELD_MB_MOST);
});
