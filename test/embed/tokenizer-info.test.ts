/** Tests GET /tokenizer_info, and the refusal of scale-out, which is not implemented. */
import { expect, test } from "bun:test";
import { createServer } from "../../src/embed/bun.ts";
import type { ServerOptions } from "../../src/embed/server-face.ts";

const MODEL = new URL("../conformance/model/", import.meta.url).pathname;

async function ask(options: ServerOptions, path: string, init: RequestInit = {}) {
  const server = await createServer({ timing: "none", ...options }).ready;
  const answer = await fetch(server.url + path, init);
  const body = (await answer.json()) as Record<string, unknown> & { error?: { type: string; message: string } };
  await server.close();
  return { status: answer.status, body };
}

test("for a model's folder the answer equals that of vLLM's TokenizerInfo with transformers 5.20", async () => {
  const { status, body } = await ask({ tokenizer: MODEL, enableTokenizerInfoEndpoint: true }, "/tokenizer_info");
  const { chat_template: template } = await Bun.file(`${MODEL}tokenizer_config.json`).json();
  const added = "<|bos|> <|eos|> <|pad|> <|system|> <|user|> <|assistant|> <|tool|> <|end|>".split(" ");
  const later = "<think> </think> <tool_call> </tool_call> <|python_tag|> [TOOL_CALLS]".split(" ");
  expect(status).toBe(200);
  expect(body).toEqual({
    tokenizer_class: "CachedTokenizersBackend",
    model_max_length: 1024,
    bos_token: "<|bos|>",
    eos_token: "<|eos|>",
    pad_token: "<|pad|>",
    clean_up_tokenization_spaces: false,
    chat_template: template,
    extra_special_tokens: added.slice(3),
    truncation_side: "left",
    name_or_path: MODEL,
    is_local: true,
    added_tokens_decoder: Object.fromEntries([
      ...added.map((text, id) => [id, text]),
      ...later.map((text, i) => [574 + i, text]),
    ]),
    backend: "tokenizers",
  });
  expect(Object.keys(body)[0]).toBe("tokenizer_class");
});

test("the built-in vocabulary reports its end of sequence, and without the flag the path is 404", async () => {
  const { body } = await ask({ enableTokenizerInfoEndpoint: true }, "/tokenizer_info");
  expect(body).toMatchObject({ tokenizer_class: "CachedTokenizersBackend", eos_token: "<|return|>" });
  expect(await ask({}, "/tokenizer_info")).toEqual({ status: 404, body: { detail: "Not Found" } });
});

test("scale-out answers 403 like the real server, and 501 with the flag", async () => {
  const generate = (options: ServerOptions) => ask(options, "/inference/v1/generate", { method: "POST" });
  expect((await generate({})).status).toBe(403);
  const { status, body } = await generate({ enableScaleOut: true });
  expect([status, body.error?.type]).toEqual([501, "NotImplementedError"]);
  expect(body.error?.message).not.toContain("Restart");
});
