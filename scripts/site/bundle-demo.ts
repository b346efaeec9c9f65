/** Bundles the script of the demo, which includes the library's engine, and copies the engine's core next to it. */
import { cpSync } from "node:fs";

const root = new URL("../../", import.meta.url).pathname;

/** Writes demo.js and core.wasm into the folder `to`. */
export async function bundleDemo(to: string): Promise<void> {
  const made = await Bun.build({
    entrypoints: [`${root}scripts/site/page/main.ts`],
    outdir: to,
    naming: "demo.js",
    target: "browser",
    format: "esm",
    minify: true,
  });
  if (!made.success) throw new AggregateError(made.logs);
  cpSync(`${root}build/core.wasm`, `${to}/core.wasm`);
}
