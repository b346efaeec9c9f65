/**
 * Runs schemathesis with our OpenAPI document against a live server: valid and invalid requests. No answer may have a status,
 * content type or body that the document lacks, and no 5xx except those that `wrongWith` allows.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { type Server, serve } from "../server.ts";
import { figure } from "../size.ts";
import { resourcesOf, underWay, wrongWith } from "./fuzz.ts";
import { seconds, seed } from "./plan.ts";

setDefaultTimeout(3_600_000);

const program = new URL("../../.venv/bin/schemathesis", import.meta.url).pathname;
const folder = new URL("../../build/schemathesis/", import.meta.url).pathname;
const FLAGS = [
  ...["--served-model-name", "golden", "--timing", "none", "--disable-uvicorn-access-log", "--mean-output-tokens", "8"],
  ...["--max-model-len", "1024", "--num-gpu-blocks-override", "4096"],
];
const CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

interface Failure {
  readonly check: string;
  readonly message: string;
  readonly status: number;
  readonly body: string;
}

/** Runs schemathesis for `share` of the time. The document is passed as a file, so that the test can narrow it. */
async function run(server: Server, name: string, document: string, share: number): Promise<Failure[]> {
  mkdirSync(folder, { recursive: true });
  const [schema, report] = [`${folder}${name}.json`, `${folder}${name}.ndjson`];
  writeFileSync(schema, document);
  const flags = [
    ...["--url", server.url, "--no-color", "--seed", String(seed), "--max-time", String(Math.ceil(seconds * share))],
    ...["--phases", "coverage,fuzzing", "--checks", CHECKS, "--max-examples", "10000", "--no-shrink"],
    ...["--continue-on-failure", "--generation-database", "none", "--suppress-health-check", "all"],
    ...["--report", "ndjson", "--report-ndjson-path", report],
  ];
  const child = Bun.spawn([program, "run", schema, ...flags], { cwd: folder, stdout: "pipe", stderr: "inherit" });
  const [output, code] = await Promise.all([child.stdout.text(), child.exited]);
  // Exit code 1 means that it found failures, which are judged below.
  expect([code, output.slice(-3000)]).toEqual([code === 1 ? 1 : 0, expect.any(String)]);
  figure(`schemathesis, ${name}`, /Test cases:\n\s*(.*)/.exec(output)?.[1]);
  return failuresIn(readFileSync(report, "utf8"));
}

interface Event {
  readonly ScenarioFinished?: {
    readonly recorder: {
      readonly checks: Readonly<
        Record<
          string,
          readonly {
            readonly name: string;
            readonly status: string;
            readonly failure_info?: { readonly failure: { readonly message: string } };
          }[]
        >
      >;
      readonly interactions: Readonly<
        Record<
          string,
          {
            readonly response: {
              readonly status_code: number;
              readonly content?: { readonly $base64: string } | null;
            } | null;
          }
        >
      >;
    };
  };
}

function failuresIn(report: string): Failure[] {
  const failures: Failure[] = [];
  for (const line of report.split("\n").filter(Boolean)) {
    const { recorder } = (JSON.parse(line) as Event).ScenarioFinished ?? {};
    for (const [id, checks] of Object.entries(recorder?.checks ?? {})) {
      const response = recorder!.interactions[id]?.response;
      for (const { name, status, failure_info: info } of checks)
        if (status === "failure")
          failures.push({
            check: name,
            message: info?.failure.message ?? "",
            status: response?.status_code ?? 0,
            body: Buffer.from(response?.content?.$base64 ?? "", "base64").toString("latin1"),
          });
    }
  }
  return failures;
}

test.skipIf(!existsSync(program) && !process.env.CI)(
  `schemathesis finds no error of the server, seed ${seed}`,
  async () => {
    const server = await serve(FLAGS);
    try {
      const document = await (await fetch(`${server.url}/openapi.json`)).text();
      // Require a served model, and null in fields whose other values are always refused, so that requests pass the first
      // checks.
      const narrowed = document
        .replaceAll(/"model":\{[^{}]*"anyOf":\[[^\]]*\]/g, '"model":{"enum":["golden",null]')
        .replaceAll(
          /"(suffix|prompt_embeds|chat_template|thinking_token_budget)":\{"anyOf":\[[^\]]*\]/g,
          '"$1":{"type":"null"',
        );
      expect(narrowed).not.toBe(document);
      const failures = [
        ...(await run(server, "document", document, 0.4)),
        ...(await run(server, "narrowed", narrowed, 0.6)),
      ];
      figure("refusals of the server's own that schemathesis takes for errors", failures.length);
      expect(
        failures.filter(
          ({ check, status, body }) => check !== "not_a_server_error" || wrongWith({ status, body }) !== null,
        ),
      ).toEqual([]);
      expect((await fetch(`${server.url}/health`)).status).toBe(200);
      expect(await underWay(server.url)).toBe(0);
      expect(resourcesOf(server.pid).descriptors).toBeGreaterThan(0);
    } finally {
      await server.stop();
    }
  },
);
