/** Does vllm:lora_requests_info say who runs, and is it there only with --enable-lora? */
import { expect, test } from "bun:test";
import { eventually, serve } from "../server.ts";

const page = async (url: string) => (await (await fetch(`${url}/metrics/vllm`)).text()).split("\n");
const info = async (url: string) => (await page(url)).filter((line) => line.startsWith("vllm:lora_requests_info{"));

test("with adapters: the time of the last step, by the adapters that run", async () => {
  const flags = "--enable-lora --max-loras 2 --lora-modules a=/x b=/y --timing constant:ttft=5ms,itl=5ms";
  const server = await serve(flags.split(" "));
  try {
    expect(await info(server.url)).toEqual([]); // no step yet
    const ask = (model: string) =>
      fetch(`${server.url}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model, prompt: "x", max_tokens: 100, ignore_eos: true }),
      }).then((answer) => answer.json());
    const answers = [ask("a"), ask("b")];
    const both = /\{max_lora="2",running_lora_adapters="(a,b|b,a)",waiting_lora_adapters="\1"\} (\S+)$/;
    await eventually(async () => both.test((await info(server.url))[0] ?? ""));
    const [, , time] = both.exec((await info(server.url))[0]!)!;
    expect(Math.abs(Number(time) - Date.now() / 1000)).toBeLessThan(30);
    await Promise.all(answers);
    const none = 'vllm:lora_requests_info{max_lora="2",running_lora_adapters="",waiting_lora_adapters=""} ';
    await eventually(async () => (await info(server.url))[0]!.startsWith(none));
  } finally {
    await server.stop();
  }
}, 30_000);

test("without LoRA there is no such family", async () => {
  const server = await serve([]);
  try {
    expect((await page(server.url)).some((line) => line.includes("lora_requests_info"))).toBe(false);
  } finally {
    await server.stop();
  }
});
