/**
 * Tests that command lines of vLLM are accepted like by vLLM 0.33: parser names, abbreviated flags, models without a preset.
 * Lines like those of the first table are published for many models.
 */
import { describe, expect, test } from "bun:test";
import { describe as bannerOf } from "../../../src/cli/serve/banner.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";
import { REASONING_PARSERS, TOOL_PARSERS } from "../../../src/text/grammar/parsers.ts";

const resolve = (line: string) => resolveServeConfig(line.split(" ").filter(Boolean), {}, () => "");

function accepted(line: string) {
  const resolved = resolve(line);
  if (!("config" in resolved)) throw new Error(`${line}: ${JSON.stringify(resolved)}`);
  return resolved;
}

function refused(line: string): string {
  const resolved = resolve(line);
  if (!("error" in resolved)) throw new Error(`accepted: ${line}`);
  return resolved.error;
}

test.each([
  "m/x --enable-auto-tool-choice --tool-call-parser glm47",
  "m/x --enable-auto-tool-choice --tool-call-parser minimax_m2 --reasoning-parser minimax_m2",
  "m/x --enable-auto-tool-choice --tool-call-parser qwen3_xml --reasoning-parser qwen3",
  "m/x --enable-auto-tool-choice --tool-call-parser openai --reasoning-parser openai_gptoss",
  "m/x --enable-auto-tool-choice --tool-call-parser gemma4 --reasoning-parser gemma4",
  "m/x --enable-auto-tool-choice --tool-call-parser llama4_json",
  "m/x --enable-auto-tool-choice --tool-call-parser pythonic",
  "m/x --reasoning-parser mistral",
  "m/x --reasoning-parser None",
  "m/x --tensor-parallel 4",
  "m/x --max-num-seq 64",
  "m/x --max-model-len 1010000",
])("%s starts", (line) => {
  accepted(line);
});

test.each([
  ["m/x --reasoning-parser nope", "--reasoning-parser: takes beam, cohere_command3, cohere_command4"],
  ["m/x --guided-decoding-backend xgrammar", "unknown flag; vllm serve 0.33 does not have it either"],
  ["m/x --swap-space 4", "unknown flag; vllm serve 0.33 does not have it either"],
])("%s is refused", (line, why) => {
  expect(refused(line)).toContain(why);
});

describe("parser names", () => {
  test("every registered name is accepted, with a notice if its format is replaced by another one", () => {
    expect([TOOL_PARSERS.size >= 58, REASONING_PARSERS.size >= 42]).toEqual([true, true]);
    for (const [option, registry] of [
      ["tool-call-parser", TOOL_PARSERS],
      ["reasoning-parser", REASONING_PARSERS],
    ] as const)
      for (const [name, { format, exact }] of registry) {
        const { config, notices } = accepted(`--${option} ${name}`);
        const { toolCallParser, reasoningParser } = config.text;
        expect([name, toolCallParser ?? reasoningParser]).toEqual([name, format]);
        expect([name, notices.filter((notice) => notice.startsWith(`--${option} ${name}: `)).length]).toEqual([
          name,
          exact ? 0 : 1,
        ]);
        if (!exact) expect(notices.join()).toContain(`in the format of vLLM's ${format}`);
      }
  });

  test.each([
    ["qwen3_xml", "qwen3_coder"],
    ["mimo", "qwen3_coder"],
    ["step3p5", "qwen3_coder"],
    ["llama4_json", "llama3_json"],
    ["glm45", "glm47"],
    ["qwen3_json", "hermes"],
  ])("parser %s has the format of %s", (name, format) => {
    expect(TOOL_PARSERS.get(name)).toEqual({ format: format as never, exact: true });
  });

  test("an unknown name is refused with the whole list, unless a plugin file may register it", () => {
    const error = refused("--tool-call-parser mine");
    for (const name of TOOL_PARSERS.keys()) expect(error).toContain(name);
    expect(error).toEndWith('not "mine"');
    expect(error).not.toContain("\n");
    expect(refused("--enable-auto-tool-choice --tool-call-parser mine --tool-parser-plugin a.p")).toContain("takes");
    const { config, notices } = accepted(
      "--tool-call-parser mine --tool-parser-plugin mine.py --reasoning-parser my --reasoning-parser-plugin my.py",
    );
    expect(config.text).toMatchObject({ toolCallParser: "hermes", reasoningParser: "deepseek_r1" });
    expect(notices.join()).toContain(
      "--tool-call-parser mine: tool calls are generated and parsed in the format of vLLM's hermes",
    );
  });

  test("trtllm-serve has a separate registry", () => {
    const text = (line: string) => accepted(`--role trtllm-serve ${line}`).config.text;
    expect(text("--tool_parser qwen3 --reasoning_parser deepseek-r1")).toMatchObject({
      toolCallParser: "hermes",
      reasoningParser: "deepseek_r1",
    });
    expect(text("--tool_parser glm47 --reasoning_parser nano-v3")).toMatchObject({ toolCallParser: "glm47" });
    expect(text("--tool_parser auto").toolCallParser).toBeUndefined();
    expect(refused("--role trtllm-serve --tool_parser nope")).toContain("deepseek_v3, deepseek_v31");
    expect(refused("--role trtllm-serve --reasoning_parser nope")).toContain("deepseek-r1");
    expect(refused("--role trtllm-serve --tool_parser hermes")).toStartWith("--tool_parser: takes deepseek_v3, ");
    expect(refused("--role trtllm-serve --reasoning_parser=deepseek_r1")).toEndWith('not "deepseek_r1"');
    expect(text("--tool-call-parser hermes").toolCallParser).toBe("hermes");
    expect(accepted("--role trtllm-serve --tool_parser glm47").notices.join()).toContain(
      "--tool_parser glm47: tool calls",
    );
    expect(refused("--reasoning-parser deepseek-r1")).toContain("takes");
  });
});

describe("abbreviated flags", () => {
  test.each([
    ["--max-num-seq 64", { maxNumSeqs: 64 }],
    ["--max-num-seq=64", { maxNumSeqs: 64 }],
    ["--max_num_seq 64", { maxNumSeqs: 64 }],
    ["--no-enable-pref", { enablePrefixCaching: false }],
    ["--disable-prefix-c", { enablePrefixCaching: false }],
    ["--scheduling-p priority", { schedulingPolicy: "priority" }],
  ] as const)("%s is completed", (line, engine) => {
    expect(accepted(line).config.engine).toMatchObject(engine);
  });

  test("keys inside a JSON value and flags of one dash are completed, also if they have no effect here", () => {
    expect(accepted("--speculative-con.model x").ignored).toEqual(["--speculative-config"]);
    expect(accepted("-t 2 -qfp8").ignored).toEqual(["--quantization"]);
    expect(accepted("--tensor-parallel 1").values["tensor-parallel-size"]).toBe(1);
  });

  test("an ambiguous flag is refused with its candidates, in the words of argparse", () => {
    expect(refused("--max-num 4")).toBe(
      "ambiguous option: --max-num could match --max-num-active-seqs, --max-num-batched-tokens, --max-num-queued-reqs, " +
        "--max-num-queued-tokens, --max-num-scheduled-tokens, --max-num-seqs",
    );
    expect(refused("--max_num=4")).toStartWith("ambiguous option: --max_num=4 could match ");
    expect(refused("-d 4")).toStartWith("ambiguous option: -d could match -dc, -dcp, -dp,");
  });

  test("our own flags are not completed and do not make a prefix ambiguous, and an exact name has priority", () => {
    expect(refused("--tim none")).toContain("unknown flag; did you mean");
    // --max-body-mb, --max-batch-size and --max-input-len are not vLLM's.
    expect(accepted("--max-logp 3").config.openai.requests.maxLogprobs).toBe(3);
    expect(accepted("--seed 4 --tokenizer-m auto").config.seed).toBe(4);
    expect(accepted("--script x").config.text.script).toBe("x");
  });

  test("--help may be abbreviated", () => {
    expect("help" in resolve("--hel")).toBe(true);
  });

  test("trtllm-serve refuses abbreviations, because it reads flags with click", () => {
    expect(refused("--role trtllm-serve --max-seq-le 100")).toContain("unknown flag");
    expect(refused("--role trtllm-serve --tensor_parallel 1")).toContain("unknown flag");
  });

  test("tritonserver's getopt_long completes its own flags", () => {
    const triton = (line: string) => resolve(`--role triton ${line}`);
    const { config } = triton("--http-p 8123 --model-rep /a") as ReturnType<typeof accepted>;
    expect(config.listen.port).toBe(8123);
    expect(refused("--role triton --grpc-inf 3")).toStartWith(
      "option '--grpc-inf' is ambiguous; possibilities: '--grpc-",
    );
    expect(refused("--role triton --load-ti 3")).toContain("unrecognized option '--load-ti'");
    expect(refused("--role triton --port 8002")).toBe("unrecognized option '--port'; did you mean --http-port?");
    expect(refused("--role triton --host a")).toContain("use --http-address");
  });
});

describe("a model without a preset", () => {
  const banner = (line: string) =>
    bannerOf(accepted(line).config, { url: "http://a", tritonUrl: null, http2Url: null }, 1, { mode: "each" as never });

  test("the pool grows to hold one request of full length, and the banner says so", () => {
    const {
      engine,
      deployment: { poolGrownFrom },
    } = accepted("m/x --max-model-len 1010000").config;
    expect(engine.numGpuBlocks).toBe(1010000 / 16 + 1);
    expect(poolGrownFrom).toBeLessThan(engine.numGpuBlocks);
    expect(banner("m/x --max-model-len 1010000")).toMatch(
      /KV cache {4}63126 blocks of 16 tokens; \S+ has \d+, too few for one request of max_model_len 1010000/,
    );
    expect(banner("m/x")).not.toContain("too few");
  });

  test.each([
    "m/x --max-model-len 1010000 --gpu-memory-utilization 0.5",
    "m/x --gpu-memory-utilization 0.05",
    "m/x --max-model-len 1M --timing none",
    "m/x --max-model-len 1M --capacity-scheduler-policy GUARANTEED_NO_EVICT",
    "m/x --role trtllm-serve --max_seq_len 1000000",
    "m/x --num-gpu-blocks-override 100",
    "m/x --no-enable-chunked-prefill --max-num-batched-tokens 4096",
    "m/x --max-num-seqs 10000",
    "m/x --max-num-active-seqs 2000",
    "m/x --max-num-scheduled-tokens 9000",
    "m/x --long-prefill-token-threshold 200000",
  ])("%s: accepted, because only a default would refuse it", (line) => {
    accepted(line);
  });

  test.each([
    "m/x --max-model-len 1600 --num-gpu-blocks-override 100",
    "m/x --max-model-len 1M --timing llama-3.1-8b-bf16-h100-tp1-vllm",
    "meta-llama/Llama-3.1-8B-Instruct --max-model-len 1M",
    "--max-model-len 1010000",
  ])("%s: refused, because the user chose the pool, or a model with a preset", (line) => {
    expect(refused(line)).toContain("KV blocks of 16 tokens, the KV pool has");
  });
});
