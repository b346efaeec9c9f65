/** `understudy timing list` and `show`: prints presets and timings as tables and plots, or as JSON. */

import { printableJson } from "../../base/printable.ts";
import type { EngineConfig } from "../../engine/config/engine-config.ts";
import { betweenTokensUs, firstToken } from "../../engine/timing/curves.ts";
import { findPreset, presetNames } from "../../engine/timing/presets.ts";
import type { Profile } from "../../engine/timing/profile.ts";
import { holdUs } from "../../engine/timing/timing.ts";
import { ownCommand } from "../checkout.ts";
import { plot } from "../plot.ts";

const SCHEMA = "understudy-timing/1";
const PROMPTS = [128, 256, 512, 1024, 2048, 4096, 8192, 16_384];
const BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const CONTEXTS = [1024, 4096, 16_384];
const MARKS = ["·", "+", "#"];

const ms = (us: number) => us / 1000;
const decimal = (us: number) => (us / 1000).toFixed(us < 100_000 ? 2 : 1);

/** Returns one line per preset. `configs`: by preset, the configuration of an engine that uses it. */
export function listText(configs: ReadonlyMap<string, EngineConfig>, json: boolean): string {
  const rows = presetNames.map((name) => {
    const { model, gpu, tp, precision, engine, poolTokens } = findPreset(name)!;
    const { timing, maxNumScheduledTokens } = configs.get(name)!;
    return {
      name,
      model,
      gpu,
      tp,
      precision,
      engine,
      pool_tokens: poolTokens,
      request_overhead_ms: ms(holdUs(timing)),
      ttft_1024_ms: ms(firstToken(timing, 1024, maxNumScheduledTokens).us),
      itl_32x1024_ms: ms(betweenTokensUs(timing, 32, 1024)),
    };
  });
  if (json) return printableJson({ schema: SCHEMA, presets: rows }, 2);
  const head = ["preset", "pool, tokens", "overhead, ms", "TTFT of 1,024, ms", "ITL of 32 × 1,024, ms"];
  const cells = rows.map((row) => [
    row.name,
    row.pool_tokens.toLocaleString("en"),
    row.request_overhead_ms.toFixed(1),
    row.ttft_1024_ms.toFixed(1),
    row.itl_32x1024_ms.toFixed(1),
  ]);
  return [textTable([head, ...cells]), "", `To plot a preset: ${ownCommand()} timing show PRESET`].join("\n");
}

/**
 * Returns tables and plots of a timing. `text`: the timing as the user wrote it. `profile`: the preset; undefined if the timing
 * is not a preset.
 */
export function showText(text: string, profile: Profile | undefined, engine: EngineConfig, json: boolean): string {
  const { timing, maxNumScheduledTokens: budget, maxModelLen, maxNumSeqs } = engine;
  const poolTokens = (engine.numGpuBlocks - 1) * engine.blockSize;
  const prompts = PROMPTS.filter((tokens) => tokens < maxModelLen);
  const batches = BATCHES.filter((sequences) => sequences <= maxNumSeqs);
  const fits = (sequences: number, each: number) => sequences * each <= poolTokens;
  const firsts = prompts.map((tokens) => ({ tokens, ...firstToken(timing, tokens, budget) }));
  if (json) {
    const itl = CONTEXTS.flatMap((each) =>
      batches
        .filter((sequences) => fits(sequences, each))
        .map((sequences) => ({ sequences, context_each: each, ms: ms(betweenTokensUs(timing, sequences, each)) })),
    );
    const ttft = firsts.map(({ tokens, us, steps }) => ({ prompt_tokens: tokens, steps, ms: ms(us) }));
    const { timing: _, ...about } = profile ?? { timing };
    return printableJson({ schema: SCHEMA, timing: text, ...about, step: timing, ttft, itl }, 2);
  }
  const first = firsts.map(({ tokens, us, overheadUs, steps }) =>
    [tokens.toLocaleString("en"), decimal(us), decimal(overheadUs), String(steps)].map(String),
  );
  const itl = batches.map((sequences) => [
    String(sequences),
    ...CONTEXTS.map((each) => (fits(sequences, each) ? decimal(betweenTokensUs(timing, sequences, each)) : "-")),
  ]);
  const shown = CONTEXTS.map((each, i) => ({
    each,
    mark: MARKS[i]!,
    label: `${each.toLocaleString("en")} tokens each`,
  }));
  const most = Math.min(batches.at(-1)!, Math.floor(poolTokens / CONTEXTS[0]!));
  return [
    about(text, profile, engine, poolTokens),
    "",
    `Time to first token of one prompt on an idle engine, at most ${budget.toLocaleString("en")} tokens a step:`,
    "",
    textTable([["prompt", "TTFT, ms", "of it overhead", "steps"], ...first]),
    "",
    plot({
      title: "TTFT, ms",
      xLabel: "prompt tokens",
      xMost: prompts.at(-1)!,
      series: [{ mark: "·", label: "", at: (tokens) => ms(firstToken(timing, tokens, budget).us) }],
    }),
    "",
    `Time between tokens of a batch, by the context of each sequence (-: more than the pool):`,
    "",
    textTable([["sequences", ...CONTEXTS.map((each) => `${each.toLocaleString("en")}, ms`)], ...itl]),
    "",
    plot({
      title: "ITL, ms",
      xLabel: "sequences",
      xMost: most,
      series: shown.map(({ each, mark, label }) => ({
        mark,
        label,
        at: (sequences) => (fits(sequences, each) ? ms(betweenTokensUs(timing, sequences, each)) : undefined),
      })),
    }),
  ].join("\n");
}

function about(text: string, profile: Profile | undefined, engine: EngineConfig, poolTokens: number): string {
  if (profile === undefined) return text;
  const { model, gpu, tp, precision, engine: measured, valid } = profile;
  const [, tokens] = valid.tokensPerStep;
  const [, sequences] = valid.sequences;
  const number = (value: number) => value.toLocaleString("en");
  return [
    text,
    `  ${model}, ${precision}, ${tp} × ${gpu.toUpperCase()}, measured on ${measured}`,
    `  KV pool of ${number(poolTokens)} tokens, ${engine.maxNumSeqs} sequences, ${number(engine.maxNumBatchedTokens)} tokens a step`,
    `  measured up to ${number(tokens)} tokens a step, ${number(sequences)} sequences, ${number(valid.contextEach[1])} tokens each; beyond that extrapolated linearly`,
  ].join("\n");
}

/** Aligns rows as a table: the first column to the left, the other columns to the right. */
export function textTable(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map((row) => row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join("   "))
    .map((line) => `  ${line}`.trimEnd())
    .join("\n");
}
