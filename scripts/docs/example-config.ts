/**
 * Writes the example of a configuration file, deploy/systemd/understudy.yaml. The comments are the help texts of the options, so
 * that they stay true. Active keys are those of a service; the others show values to try.
 */
import { stringify } from "yaml";
import type { OptionRow } from "../../src/cli/options/option.ts";
import { type OptionName, serveOptions } from "../../src/cli/options/serve-options.ts";

/** Example values. `isActive`: false if the key is a comment. */
type Example = readonly [name: OptionName, value: unknown, isActive: boolean];

const EXAMPLES: Readonly<Record<string, readonly Example[]>> = {
  "The server": [
    ["role", "vllm", true],
    ["host", "127.0.0.1", true],
    ["port", 8000, true],
    ["model", "meta-llama/Llama-3.1-8B-Instruct", true],
    ["served-model-name", ["my-model", "my-alias"], false],
    ["shutdown-timeout", 30, true],
    ["disable-uvicorn-access-log", true, true],
    ["ssl-certfile", "/etc/understudy/server.pem", false],
  ],
  "Speed and size": [
    ["timing", "constant:ttft=200ms,itl=20ms", false],
    ["jitter", 0.05, false],
    ["max-num-seqs", 256, false],
    ["max-model-len", "8k", false],
    ["enable-prefix-caching", true, false],
  ],
  Answers: [
    ["output-tokens", "lognormal:mean=100,sigma=0.5", false],
    ["fixtures", "/etc/understudy/fixtures", false],
    ["enable-auto-tool-choice", true, false],
    ["tool-call-parser", "hermes", false],
  ],
  "Overload and failures": [
    ["max-num-queued-reqs", 100, false],
    ["overload-status", "429", false],
    ["retry-after", 1, false],
    ["failure-injection-rate", 5, false],
    ["failure-types", ["rate_limit", "server_error"], false],
  ],
  "What really happened": [
    ["truth-log", "truth.jsonl", false],
    ["truth-requests", 1000, true],
  ],
};

const WIDTH = 100;
const rows: Readonly<Record<string, OptionRow>> = serveOptions;

export function exampleConfig(): string {
  const parts = Object.entries(EXAMPLES).map(
    ([title, examples]) => `## ${title}\n\n${examples.map(entryOf).join("\n\n")}`,
  );
  const head = [
    "# Configuration of understudy serve: understudy serve --config understudy.yaml",
    "# Keys are options without leading dashes. A flag wins over a variable such as UNDERSTUDY_PORT, a variable over this file.",
    "# All options: man understudy. Effective values: understudy serve --config understudy.yaml --print-config",
    "# Set secrets such as api-key by variables, not here. Remove the # of a key to set it.",
  ];
  return `${head.join("\n")}\n\n${parts.join("\n\n")}\n`;
}

function entryOf([name, value, isActive]: Example): string {
  const { about, default: absent } = rows[name]!;
  const key = stringify({ [name]: value }, { collectionStyle: "flow", flowCollectionPadding: false, lineWidth: 0 });
  const text = key.trim().replace(/^\{(.*)\}$/, "$1");
  return `${comment(`${about} Default: ${absent}.`)}\n${isActive ? "" : "#"}${text}`;
}

function comment(text: string): string {
  const lines = ["#"];
  for (const word of text.split(" ")) {
    if (lines.at(-1)!.length + 1 + word.length > WIDTH) lines.push("#");
    lines[lines.length - 1] += ` ${word}`;
  }
  return lines.join("\n");
}
