/** Tests `understudy front` with the real `vllm-rs`: a chat, and the end of both by a signal. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { freePort } from "../../bench/lib/servers.ts";
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
