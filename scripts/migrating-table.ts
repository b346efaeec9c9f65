/** Writes the table of docs/how-to/migrating.md, which lists the option that replaces each key of llm-d-inference-sim. */
import { readFileSync, writeFileSync } from "node:fs";
import { KEYS, type Key } from "../src/cli/compat/llm-d-keys.ts";

const SHAPES = {
  fakes: "`--fake-metrics`",
  timing: "`--timing`, `--jitter`, `--overhead-jitter`: see Time",
  limits: "`--limit-concurrency` with `--overload-status 429`",
  cache: "`--num-gpu-blocks-override`, one more for the block that is set aside",
  answers: "`--answers`: random is prose",
  log: "the access log with `log-http`, else off; `--enable-log-requests` with `v` from 4 on",
  tools: "`--tool-arguments`, `--tool-call-share`: see Tools",
  transfer: "`--kv-transfer-time`: see Prefill elsewhere",
  threshold: "`--cache-hit-threshold` with `enable-kvcache`, else 0",
  ranks: "`--data-parallel-size`: all ranks on the one port; 1 where a rank is given",
  readiness: "`/health/ready` answers 503 so long, and `/health` 200",
} as const;

function becomes({ fate }: Key): string {
  if ("as" in fate) return `\`--${fate.as}\``;
  if ("shapes" in fate) return SHAPES[fate.shapes];
  if ("differs" in fate) return `so anyway; ${fate.differs}`;
  return "ignored" in fate ? "ignored" : `a warning: ${fate.unsupported}`;
}

export function migratingTable(): string {
  const rows = Object.entries(KEYS).map(([name, key]) => `| \`${name}\` | ${becomes(key)} |`);
  return ["| Key | Becomes |", "|---|---|", ...rows].join("\n");
}

export const MARKS = ["<!-- keys -->", "<!-- /keys -->"] as const;

if (import.meta.main) {
  const file = new URL("../docs/how-to/migrating.md", import.meta.url);
  const text = readFileSync(file, "utf8");
  const [before, after] = [text.split(MARKS[0])[0]!, text.split(MARKS[1])[1]!];
  writeFileSync(file, `${before}${MARKS[0]}\n${migratingTable()}\n${MARKS[1]}${after}`);
}
