/** Returns the table of docs/how-to/migrating.md, which names the option that replaces each key of llm-d-inference-sim. */
import { KEYS, type Key } from "../../src/cli/compat/llm-d-keys.ts";
import { markdownTable } from "./markdown.ts";

const SHAPES = {
  fakes: "`--fake-metrics`",
  timing: "`--timing`, `--jitter`, `--overhead-jitter`: see Time",
  limits: "`--limit-concurrency` with `--overload-status 429`",
  cache: "`--num-gpu-blocks-override`, plus one for the null block",
  events: "`--kv-events-config` and its neighbours, with `enable-kvcache`: see [KV events](kv-events.md)",
  answers: "`--answers`; random is prose",
  log: "the access log with `log-http`, else off; `--enable-log-requests` with `v` from 4 on",
  tools: "`--tool-arguments`, `--tool-call-share`: see Tools",
  transfer: "`--kv-transfer-time`: see Prefill elsewhere",
  threshold: "`--cache-hit-threshold` with `enable-kvcache`, else 0",
  ranks: "`--data-parallel-size`, all ranks on one port; 1 if a rank is given",
  readiness: "`/health/ready` answers 503 for this time, `/health` 200",
} as const;

function becomes({ fate }: Key): string {
  if ("as" in fate) return `\`--${fate.as}\``;
  if ("shapes" in fate) return SHAPES[fate.shapes];
  if ("differs" in fate) return `always so; ${fate.differs}`;
  return "ignored" in fate ? "ignored" : `a warning: ${fate.unsupported}`;
}

export function migratingTable(): string {
  const rows = Object.entries(KEYS).map(([name, key]) => [`\`${name}\``, becomes(key)]);
  return markdownTable([["Key", "Becomes"], ...rows]);
}
