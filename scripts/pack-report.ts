/** Writes the script and the style of the report page, including uPlot, into `build/`, as a step of the build. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

const root = new URL("../", import.meta.url).pathname;
const { version } = JSON.parse(readFileSync(`${root}node_modules/uplot/package.json`, "utf8"));
/** First line of uPlot's licence, because the licence demands that copies contain its notice. */
const [licence = ""] = /Copyright[^\n]*/.exec(readFileSync(`${root}node_modules/uplot/LICENSE`, "utf8")) ?? [];

const built = await Bun.build({
  entrypoints: [`${root}src/tools/report/page/main.ts`],
  target: "browser",
  format: "iife",
  minify: true,
  banner: `/*! uPlot ${version}, MIT, ${licence}: github.com/leeoniya/uPlot */`,
});
const script = await built.outputs[0]!.text();
// The page contains the script inside a `script` element, so the text must not end that element.
if (/<\/script|<!--/i.test(script)) throw new Error("the script would end its own element");
const style = ["node_modules/uplot/dist/uPlot.min.css", "src/tools/report/page/style.css"]
  .map((path) => readFileSync(root + path, "utf8").trim())
  .join("\n");
mkdirSync(`${root}build`, { recursive: true });
writeFileSync(`${root}build/report.js`, script);
writeFileSync(`${root}build/report.css`, `${style}\n`);
console.log(`build/report.js: ${script.length} bytes; build/report.css: ${style.length} bytes`);
