/** Checks that memory does not grow with rounds of HTTP/2 requests that the client resets. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { attack, HTTP2_ATTACKS } from "../../../bench/lib/http2-attacks.ts";
import { serve } from "../../server.ts";

const RESET = HTTP2_ATTACKS.find(({ name }) => name === "RST_STREAM of all streams")!;
const ROUNDS = 7;
/** Limit as a multiple of one round's memory. Without collections, seven rounds took 3.5 times as much as one. */
const MOST_ROUNDS_OF_MEMORY = 2;

test("rounds of 16,384 reset requests take hardly more memory than one", async () => {
  const server = await serve(["--http2-port=0", "--exit-with-parent", "--disable-uvicorn-access-log"]);
  try {
    const port = Number(/HTTP\/2\D*127\.0\.0\.1:(\d+)/.exec(server.output())![1]);
    const status = (field: string) =>
      Number(new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))![1]);
    const before = status("VmRSS");
    await attack(RESET, port, "/v1/chat/completions");
    const one = status("VmHWM") - before;
    for (let round = 1; round < ROUNDS; round++) await attack(RESET, port, "/v1/chat/completions");
    expect((status("VmHWM") - before) / one).toBeLessThan(MOST_ROUNDS_OF_MEMORY);
  } finally {
    await server.stop("SIGKILL");
  }
}, 60_000);
