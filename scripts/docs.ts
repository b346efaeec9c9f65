/**
 * Generates text of the docs from tables of the code, and writes it between its markers in the pages: `npx bun run docs`. Also
 * writes test/docs/surface.json, the list of names that semantic versioning covers. With paths as arguments, writes only these
 * files. With `--check`, writes nothing, and exits with 1 if a file is out of date. Takes some seconds.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { FILES, PAGES, pageTexts } from "./docs/pages.ts";
import { changeText, surfaceChanges, surfaceText, untold } from "./surface/compare.ts";
import { currentSurface } from "./surface/surface.ts";

/** Path of the list of names that semantic versioning covers. */
const SURFACE = "test/docs/surface.json";

const root = new URL("../", import.meta.url).pathname;
const words = process.argv.slice(2);
const paths = words.filter((word) => word !== "--check");
const isCheck = paths.length < words.length;
const all = [...Object.keys(PAGES), ...Object.keys(FILES), SURFACE];
const unknown = paths.filter((path) => !all.includes(path));
if (unknown.length > 0) throw new Error(`no page with generated text: ${unknown.join(", ")}`);

/** Returns the recorded list as it is and as it must be. A change that the changelog does not name stays as recorded. */
async function surfaceTexts(): Promise<{ readonly old: string; readonly now: string }> {
  // The list contains the public types, which are read from the built library.
  const built = Bun.spawn([process.execPath, "scripts/build.ts", "--library"], { cwd: root, stdout: "inherit" });
  if ((await built.exited) !== 0) process.exit(1);
  const old = existsSync(root + SURFACE) ? readFileSync(root + SURFACE, "utf8") : null;
  const current = await currentSurface();
  if (old === null) return { old: "", now: surfaceText(current) };
  const recorded = JSON.parse(old);
  const broken = untold(surfaceChanges(recorded, current), readFileSync(`${root}CHANGELOG.md`, "utf8"));
  for (const change of broken)
    console.log(`${changeText(change)}: CHANGELOG.md does not name it under Changed or Fixed`);
  if (broken.length === 0) return { old, now: surfaceText(current) };
  process.exitCode = 1;
  return { old, now: old };
}

for (const path of paths.length > 0 ? paths : all) {
  const { old, now } = path === SURFACE ? await surfaceTexts() : pageTexts(path);
  if (now === old) continue;
  console.log(`${path}: ${isCheck ? "out of date; cure: npx bun run docs" : "written"}`);
  if (isCheck) process.exitCode = 1;
  else writeFileSync(root + path, now);
}
