/** Checks which preset a model's name selects, and that the banner names it. */
import { expect, test } from "bun:test";
import { describe as banner } from "../../../src/cli/serve/banner.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";
import { models } from "../../../src/engine/timing/models.ts";
import { DEFAULT_PRESET, findPreset, presetNames, presetsFor } from "../../../src/engine/timing/presets.ts";

function accepted(line: string) {
  const resolved = resolveServeConfig(line.split(" ").filter(Boolean), {}, () => "");
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return resolved;
}

const lines = (line: string) =>
  banner(accepted(line).config, { url: "http://127.0.0.1:1", tritonUrl: null, http2Url: null }, 1, {
    mode: "single",
  }).split("\n");
const presetLine = (line: string) => lines(line).find((text) => text.startsWith("  preset"));

test.each<[name: string, preset: string]>([
  ["Qwen/Qwen3-32B", "qwen3-32b-bf16-h100-tp2-vllm"],
  ["qwen/qwen3-32b", "qwen3-32b-bf16-h100-tp2-vllm"],
  ["Qwen3-32B", "qwen3-32b-bf16-h100-tp2-vllm"],
  ["Qwen/Qwen3-32B-FP8", "qwen3-32b-fp8-h200-tp1-vllm"],
  ["/data/models/Qwen3-32B-FP8/", "qwen3-32b-fp8-h200-tp1-vllm"],
  [
    "hub/models--Qwen--Qwen3-30B-A3B/snapshots/ad44e777bcd18fa416d9da3bd8f70d33ebb85d39",
    "qwen3-30b-a3b-bf16-h100-tp1-vllm",
  ],
  ["Qwen/Qwen3-30B-A3B-FP8", "qwen3-30b-a3b-bf16-h100-tp1-vllm"],
  ["openai/gpt-oss-120b", "gpt-oss-120b-mxfp4-h100-tp2-vllm"],
  ["meta-llama/Llama-3.1-8B-Instruct", DEFAULT_PRESET],
  ["meta-llama/Meta-Llama-3.1-8B", DEFAULT_PRESET],
  ["RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8-dynamic", "llama-3.1-70b-fp8-h100-tp2-vllm"],
  ["nvidia/Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b-fp8-h200-tp1-vllm"],
])("serve %s selects %s, with that model's steps, pool and length", (name, preset) => {
  const { config } = accepted(name);
  const { model, poolTokens } = findPreset(preset)!;
  expect(config).toMatchObject({ deployment: { preset }, models: { model: name } });
  expect(config.engine).toMatchObject({
    timing: { name: preset },
    numGpuBlocks: Math.floor(poolTokens / 16),
    maxModelLen: models[model]!.maxModelLen,
  });
  expect(presetLine(name)).toContain(`preset      ${preset}, chosen by the model's name`);
});

test.each(["Qwen/Qwen3-8B", "Qwen/Qwen3-32B-AWQ", "m", "org/", "qwen3", "Llama-3.1-8B/other", "x/models--"])(
  "%s has no measurements: the banner says that the default preset applies",
  (name) => {
    const { config } = accepted(`--model ${name}`);
    expect([config.deployment.preset, config.deployment.presetsOfModel]).toEqual([DEFAULT_PRESET, []]);
    expect(presetLine(`--model ${name}`)).toBe(
      `  preset      none for ${name}: step times, KV pool and batch sizes are those of the default, ${DEFAULT_PRESET}`,
    );
  },
);

test("with several presets, the banner names the selected one and all others", () => {
  const measured = presetNames.filter((name) => name.startsWith("llama-3.1-70b"));
  const shown = presetLine("meta-llama/Llama-3.1-70B-Instruct")!;
  for (const name of measured) expect(shown).toContain(name);
  expect(
    presetsFor("meta-llama/Llama-3.1-70B-Instruct")
      .map(({ name }) => name)
      .sort(),
  ).toEqual(measured.sort());
});

test("--timing overrides the preset's times; with other forms the preset still gives pool and length", () => {
  const other = accepted("Qwen/Qwen3-32B --timing llama-3.1-8b-fp8-l40s-tp1-vllm:overhead=0ms");
  expect(other.config).toMatchObject({
    deployment: { preset: "llama-3.1-8b-fp8-l40s-tp1-vllm" },
    models: { model: "Qwen/Qwen3-32B" },
  });
  expect(presetLine("Qwen/Qwen3-32B --timing llama-3.1-8b-fp8-l40s-tp1-vllm")).toBeUndefined();
  const constant = accepted("Qwen/Qwen3-32B --timing constant:ttft=20ms,itl=5ms").config;
  expect(constant.engine).toMatchObject({ maxModelLen: 40960, timing: { kind: "constant", itlUs: 5000 } });
  expect(constant.deployment.preset).toBe("qwen3-32b-bf16-h100-tp2-vllm");
  expect(presetLine("Qwen/Qwen3-32B --timing none")).toContain(": KV pool and batch sizes;");
  expect(presetLine("")).toBeUndefined();
});

test("--tensor-parallel-size selects among the model's presets, with a notice if none has that many GPUs", () => {
  const taken = (line: string) => [accepted(line).config.deployment.preset, accepted(line).notices.length];
  expect(taken("meta-llama/Llama-3.1-70B-Instruct -tp 4")).toEqual(["llama-3.1-70b-fp8-h100-tp4-vllm", 0]);
  expect(taken("meta-llama/Llama-3.1-70B-Instruct -tp 8")).toEqual(["llama-3.1-70b-fp8-h100-tp8-vllm", 0]);
  expect(taken("Qwen/Qwen3-32B --tensor-parallel-size 1")).toEqual(["qwen3-32b-fp8-h200-tp1-vllm", 0]);
  expect(taken("Qwen/Qwen3-32B-FP8 -tp 2")).toEqual(["qwen3-32b-fp8-h200-tp1-vllm", 1]);
  expect(accepted("-tp 4").notices).toEqual([
    `--tensor-parallel-size 4: no preset with this many GPUs exists for the model; using ${DEFAULT_PRESET} with 1`,
  ]);
  expect(accepted("-tp 4").ignored).toEqual([]);
});
