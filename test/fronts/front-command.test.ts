/** Tests `understudy front` and `startFront` with the real `vllm-rs`: requests, and the end of both. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { freePort } from "../../bench/lib/servers.ts";
import { startFront } from "../../src/embed/bun.ts";
import { main } from "../program.ts";
import { startProgram } from "../started-program.ts";
import { isHere, MODEL, program } from "./vllm-rs.ts";

setDefaultTimeout(60_000);

test.skipIf(!isHere())("understudy front serves a chat through vllm-rs, and SIGTERM ends both", async () => {
  const port = freePort();
  const started = await startProgram(
    [
      ...[process.execPath, main, "front", "--timing", "none", "--seed", "1"],
      ...["--", program, "serve", MODEL, "--served-model-name", "golden", "--host", "127.0.0.1", "--port", `${port}`],
    ],
    (output) => output.includes("understudy front: ready"),
  );
  const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "golden", messages: [{ role: "user", content: "hello" }], max_tokens: 8 }),
  });
  expect(await answer.json()).toMatchObject({ usage: { prompt_tokens: 7, completion_tokens: 8 } });
  expect(await started.stop("SIGTERM")).toBe(0);
  await started.ended;
  expect(started.output()).toContain("received shutdown signal (SIGTERM)");
});

test.skipIf(!isHere())("startFront serves requests through vllm-rs, and the engine counts them", async () => {
  const command = [program, "serve", MODEL, "--served-model-name", "golden", "--max-model-len", "1024"];
  await using front = await startFront({ command, engine: { timing: "none" } });
  const answer = await fetch(`${front.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "golden", prompt: "hello", max_tokens: 9, ignore_eos: true }),
  });
  expect(await answer.json()).toMatchObject({ usage: { completion_tokens: 9 } });
  expect(await front.engine.idle()).toMatchObject({ generationTokens: 9, running: 0 });
  expect(await front.output()).toContain("ready to accept requests");
});
