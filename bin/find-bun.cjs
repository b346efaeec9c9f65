/** Where is Bun's program? Read by the command and by the library, in Node. Plain, so that a checkout runs without a build. */
const { existsSync, statSync, readdirSync } = require("node:fs");
const { dirname, join } = require("node:path");

/** Package `bun` has a script's text in its place until its install script has run. */
const PROGRAM_BYTES = 1_000_000;

/** Programs of one platform: Linux has two, by its C library. */
function packages() {
  const cpu = { x64: "x64", arm64: "aarch64" }[process.arch];
  const os = { win32: "windows" }[process.platform] ?? process.platform;
  if (os !== "linux") return [`@oven/bun-${os}-${cpu}`];
  const libraries = existsSync("/lib") ? readdirSync("/lib") : [];
  const names = [`@oven/bun-linux-${cpu}`, `@oven/bun-linux-${cpu}-musl`];
  return libraries.some((name) => name.startsWith("ld-musl-")) ? names.reverse() : names;
}

const isProgram = (path) => existsSync(path) && statSync(path).size > PROGRAM_BYTES;

/**
 * The program of a `@oven/bun-…`, which is there without any install script; else of package `bun`, whose script moves it.
 * `null`: there is none.
 */
function findBun() {
  const program = process.platform === "win32" ? "bin/bun.exe" : "bin/bun";
  const places = [...packages().map((name) => [name, program]), ["bun", "bin/bun.exe"]];
  for (const [name, file] of places) {
    try {
      const path = join(dirname(require.resolve(`${name}/package.json`)), file);
      if (isProgram(path)) return path;
    } catch {}
  }
  return null;
}

const CURE =
  "Bun's program is not installed: optional dependencies (@oven/bun-...) were left out; install without --omit=optional, or add the package bun";

module.exports = { findBun, CURE };
