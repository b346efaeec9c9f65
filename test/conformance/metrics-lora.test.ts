/** Checks that vllm:lora_requests_info lists the running adapters, and exists only with --enable-lora. */
import { expect, test } from "bun:test";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { hosted } from "../hosted.ts";
import { eventually } from "../server.ts";

const page = async (url: string) => (await (await fetch(`${url}/metrics/vllm`)).text()).split("\n");
const info = async (url: string) => (await page(url)).filter((line) => line.startsWith("vllm:lora_requests_info{"));

test("with adapters the gauge has the time of the last step, by running adapters", async () => {
  const flags = "--enable-lora --max-loras 2 --lora-modules a=/x b=/y --timing constant:ttft=5ms,itl=5ms";
  const server = await hosted(flags.split(" "));
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

test("adapters loaded by requests are listed like those of the command line, also after unloading", async () => {
  const flags = "--enable-lora --max-loras 3 --lora-modules a=/x --timing constant:ttft=5ms,itl=5ms";
  const server = await hosted(flags.split(" "), { VLLM_ALLOW_RUNTIME_LORA_UPDATING: "1" });
  const post = (path: string, body: object) =>
    fetch(`${server.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const load = (name: string) => post("/v1/load_lora_adapter", { lora_name: name, lora_path: "/y" });
  const ask = (model: string, tokens: number) =>
    post("/v1/completions", { model, prompt: "x", max_tokens: tokens, ignore_eos: true }).then((answer) =>
      answer.json(),
    );
  /** Number of tokens that take two seconds, in which scrapes must see the running requests. */
  const LASTING = 400;
  const names = async () => /running_lora_adapters="(.*)",waiting/.exec((await info(server.url))[0] ?? "")?.[1];
  try {
    await ask("a", 1);
    expect(await names()).toBe(""); // the metrics thread runs, with the first names
    const long = "n".repeat(300);
    for (const name of ['b,"c"', long]) expect((await load(name)).status).toBe(200);
    const answers = [ask("a", LASTING), ask('b,"c"', LASTING)];
    await eventually(async () => (await names())?.split(",").length === 3);
    const quoted = 'b,\\"c\\"';
    expect([`a,${quoted}`, `${quoted},a`]).toContain((await names())!);
    await post("/v1/unload_lora_adapter", { lora_name: 'b,"c"' });
    expect(await names()).toContain(quoted);
    await Promise.all(answers);
    await load("d");
    await Promise.all([
      Promise.all([ask("d", LASTING), ask(long, LASTING)]),
      eventually(async () => (await names())!.split(",").toSorted().join() === ["d", "n".repeat(256)].join()),
    ]);
    await eventually(async () => (await names()) === "");
  } finally {
    await server.stop();
  }
}, 30_000);

test("loading adapters by request and several workers exclude each other, as with vLLM's API servers", () => {
  const env = { VLLM_ALLOW_RUNTIME_LORA_UPDATING: "1" };
  const resolved = resolveServeConfig(["--workers", "2", "--enable-lora"], env, () => "");
  expect("error" in resolved && resolved.error).toStartWith(
    "--workers: must be 1 with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1",
  );
});

test("without LoRA the family does not exist", async () => {
  const server = await hosted([]);
  try {
    expect((await page(server.url)).some((line) => line.includes("lora_requests_info"))).toBe(false);
  } finally {
    await server.stop();
  }
});
