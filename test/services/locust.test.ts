/** Runs the recipe for Locust without its page, in the whole of `test services`. */
import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { run } from "../packed.ts";
import { separateServer } from "../separate-server.ts";
import { sized } from "../size.ts";

const root = new URL("../../", import.meta.url).pathname;
const locust = `${root}.venv-services/bin/locust`;
const isHere = existsSync(locust);
const isWhole = sized("services", { sample: false, whole: true });
if (isWhole && !isHere)
  console.log(
    "Locust is missing (python3 -m venv .venv-services && .venv-services/bin/pip install -r test/clients/requirements/services.txt)",
  );

interface Row {
  readonly name: string;
  readonly num_requests: number;
  readonly num_failures: number;
  readonly min_response_time: number;
}

/** Runs the recipe for two seconds against a server with these flags, and returns its exit code and the rows of its result. */
async function rows(flags: readonly string[]): Promise<{ readonly code: number; readonly rows: Map<string, Row> }> {
  const server = await separateServer(["--port=0", "--served-model-name=m", ...flags], {});
  try {
    const words = ["--headless", "--users=4", "--spawn-rate=4", "--run-time=2s", "--json", `--host=${server.url}`];
    const { code, out } = await run([locust, "-f", `${root}examples/locust/locustfile.py`, ...words], root, {
      PYTHONDONTWRITEBYTECODE: "1",
    });
    return { code, rows: new Map((JSON.parse(out) as Row[]).map((row) => [row.name, row])) };
  } finally {
    await server.stop(1);
  }
}

test.skipIf(!isWhole || !isHere)(
  "Locust measures the first token and the whole answer, without a failure",
  async () => {
    const result = await rows(["--timing=constant:ttft=20ms,itl=2ms"]);
    expect(result.code).toBe(0);
    const [chat, first, whole] = ["chat", "first token", "whole answer"].map((name) => result.rows.get(name)!);
    expect([chat!.num_failures, chat!.num_requests > 10]).toEqual([0, true]);
    expect(first!.min_response_time).toBeGreaterThanOrEqual(20);
    expect(whole!.min_response_time).toBeGreaterThan(first!.min_response_time);
  },
  60_000,
);

test.skipIf(!isWhole || !isHere)(
  "Locust counts a broken stream as a failure",
  async () => {
    const { code, rows: found } = await rows(["--timing=none", "--fault-rate=100", "--fault-types=E1"]);
    const chat = found.get("chat")!;
    expect([code, chat.num_failures > 10]).toEqual([1, true]);
    expect(chat.num_failures).toBe(chat.num_requests);
  },
  60_000,
);
