/** The OpenMetrics parser of Python's prometheus_client, in a virtual environment that the repository ignores. */
import { existsSync } from "node:fs";

const folder = new URL("../../build/prometheus-client", import.meta.url).pathname;
const python = `${folder}/bin/python`;
const PACKAGE = "prometheus_client==0.26.0";

const READ = `
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read
families = list(read(sys.stdin.read()))
print(json.dumps([[f.name, f.type, f.documentation, len(f.samples)] for f in families]))
`;

export const hasParser = (): boolean => existsSync(python);

export async function installParser(): Promise<void> {
  for (const command of [
    ["python3", "-m", "venv", folder],
    [python, "-m", "pip", "install", "--quiet", PACKAGE],
  ]) {
    const child = Bun.spawn(command, { stdio: ["ignore", "ignore", "pipe"] });
    if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}: ${await new Response(child.stderr).text()}`);
  }
}

export type ReadFamily = readonly [name: string, type: string, help: string, samples: number];

/** Returns the families of a page. Rejects with the parser's error if the page breaks a rule of OpenMetrics. */
export async function readByParser(page: string): Promise<readonly ReadFamily[]> {
  const child = Bun.spawn([python, "-c", READ], { stdin: new Blob([page]), stdout: "pipe", stderr: "pipe" });
  const [output, error] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(error.trim().split("\n").at(-1));
  return JSON.parse(output);
}
