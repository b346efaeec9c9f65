/** Tests that the page counts KV events which a subscriber that does not read has missed. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { freePort } from "../../src/cli/front/free-port.ts";
import { command, greeting, ready } from "../../src/wire/zmtp/frames.ts";
import { hosted } from "../hosted.ts";

setDefaultTimeout(60_000);

test("messages to a subscriber that does not read are counted on the page", async () => {
  const port = await freePort();
  const source = { enable_kv_cache_events: true, endpoint: `tcp://*:${port}`, hwm: 1 };
  const server = await hosted([
    ...["--timing=none", "--served-model-name=m", "--max-model-len=131072", "--num-gpu-blocks-override=100000"],
    `--kv-events-config=${JSON.stringify(source)}`,
  ]);
  const dropped = async () => {
    const page = await (await fetch(`${server.url}/metrics`)).text();
    return /^understudy_kv_events_dropped_total\{kind="messages"\} (\S+)$/m.exec(page)![1];
  };
  const subscriber = await Bun.connect({
    ...{ hostname: "127.0.0.1", port },
    socket: {
      open: (socket) => {
        socket.write(greeting(1));
        socket.write(ready("SUB", null));
        socket.write(command("SUBSCRIBE", Buffer.alloc(0)));
        socket.pause();
      },
      data() {},
    },
  });
  const body = (first: number) =>
    JSON.stringify({ model: "m", prompt: Array.from({ length: 20_000 }, (_, at) => first + at), max_tokens: 1 });
  const ask = async (first: number) => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${server.url}/v1/completions`, { method: "POST", headers, body: body(first) });
    expect(answer.status).toBe(200);
    await answer.text();
  };
  await ask(0);
  expect(await dropped()).toBe("0.0");
  for (let at = 1; at < 400 && (await dropped()) === "0.0"; at++) await ask(at * 300);
  expect(Number(await dropped())).toBeGreaterThan(0);
  subscriber.terminate();
  await server.stop(0);
});
