/** Tests that Triton's options are read like by tritonserver, with the same errors. */
import { describe, expect, test } from "bun:test";
import { serveOptions } from "../../../src/cli/options/serve-options.ts";
import { tritonOptions } from "../../../src/cli/options/triton-options.ts";
import { tritonServerOptions } from "../../../src/cli/options/triton-server-options.ts";
import { resolveServeConfig } from "../../../src/cli/serve/resolve.ts";
import { parseMetricsConfig, readTritonBoolean } from "../../../src/metrics/config/triton-metrics.ts";
import { DEFAULT_TRITON_METRICS } from "../../metrics/snapshots.ts";

const resolve = (line: string) => resolveServeConfig(line.split(" ").filter(Boolean), {}, () => "");
const tritonOf = (line: string) => {
  const resolved = resolve(line);
  if (!("config" in resolved)) throw new Error(JSON.stringify(resolved));
  return resolved.config.metrics.triton;
};
const errorOf = (line: string) => {
  const resolved = resolve(line);
  return "error" in resolved ? resolved.error : null;
};

describe("--metrics-config", () => {
  test.each(["foo", "a,b=c", "=x", "counter_latencies=", ""])("%p is refused in Triton's words", (text) => {
    const error = `--metrics-config option format is <setting>=<value>. Got ${text}`;
    expect(parseMetricsConfig([text])).toEqual({ error });
    if (text !== "") expect(errorOf(`--metrics-config=${text}`)).toBe(error);
  });

  test.each(["nonsense=1", "counter_latencies=maybe", "summary_latencies=true,histogram_latencies=true"])(
    "%p has no effect, as in tritonserver, and a notice says so",
    (text) => {
      const read = parseMetricsConfig([text]);
      expect(read).toMatchObject({ counters: true, histograms: false, quantiles: [] });
      expect("notices" in read && read.notices).toEqual([
        expect.stringContaining(
          `--metrics-config ${text} means nothing, to tritonserver too; each value is one setting`,
        ),
      ]);
    },
  );

  test("settings may be values of one option or of several", () => {
    const together =
      "--metrics-config counter_latencies=false histogram_latencies=true summary_latencies=true summary_quantiles=0.5:0.05,0.9:0.01";
    const quantiles = [
      { quantile: 0.5, error: 0.05 },
      { quantile: 0.9, error: 0.01 },
    ];
    expect(tritonOf(together)).toMatchObject({ counters: false, histograms: true, quantiles });
    expect(resolve(together)).toMatchObject({ notices: [expect.stringContaining("deprecated")] });
    expect(
      tritonOf("--metrics-config=summary_latencies=true --metrics-config=summary_quantiles=0.9:0.1"),
    ).toMatchObject({
      quantiles: [{ quantile: 0.9, error: 0.1 }],
    });
    expect(tritonOf("--metrics-config summary_latencies=true").quantiles.map(({ quantile }) => quantile)).toEqual([
      0.5, 0.9, 0.95, 0.99, 0.999,
    ]);
    // Quantiles have no effect without summaries.
    expect(tritonOf("--metrics-config summary_quantiles=0.9:0.1").quantiles).toEqual([]);
  });

  test("invalid parts of summary_quantiles are reported and left out", () => {
    const resolved = resolve("--metrics-config summary_latencies=true summary_quantiles=0.5,a:b,0.9:0.1");
    expect("config" in resolved && resolved.config.metrics.triton.quantiles).toEqual([{ quantile: 0.9, error: 0.1 }]);
    expect("notices" in resolved && resolved.notices).toEqual([
      "Invalid option: [0.5]. No ':' delimiter found. Expected format is <quantile>:<error>",
      "Invalid option: [a:b]. Error: stod",
      expect.stringContaining("deprecated"),
    ]);
  });
});

describe("deprecation outside --role triton", () => {
  const noticesOf = (line: string) => {
    const resolved = resolve(line);
    return "notices" in resolved ? resolved.notices : [];
  };
  const REPLACEMENT = "use --role triton, a Triton server with all of these metrics";

  test("one notice names the given options and the replacement", () => {
    expect(noticesOf("--metrics-port 8002 --allow-cpu-metrics false")).toEqual([
      `--allow-cpu-metrics, --metrics-port: deprecated for this role; ${REPLACEMENT}`,
    ]);
  });

  test.each(["", "--allow-metrics false", "--role triton --metrics-port=8002"])("no notice with %p", (line) => {
    expect(noticesOf(line).filter((notice) => notice.includes("deprecated"))).toEqual([]);
  });

  test("the help of every option names the replacement, but not in the Triton role", () => {
    for (const [name, { about }] of Object.entries(tritonOptions)) {
      expect(serveOptions[name as keyof typeof tritonOptions].about).toBe(`${about} Deprecated: ${REPLACEMENT}.`);
      expect(tritonServerOptions[name as keyof typeof tritonOptions].about).not.toContain("Deprecated");
    }
  });
});

test.each([
  ["true", true],
  ["ON", true],
  ["1", true],
  ["False", false],
  ["off", false],
  ["0", false],
  ["maybe", undefined],
  ["", undefined],
] as const)("the boolean %p is read like by tritonserver", (text, value) =>
  expect(readTritonBoolean(text)).toBe(value as never),
);

test("without options Triton's defaults apply, and there is no separate port", () => {
  expect(tritonOf("")).toEqual(DEFAULT_TRITON_METRICS);
});

test("options set the metrics port, its address, and the allowed metrics", () => {
  expect(tritonOf("--metrics-port 8002").listen).toEqual({ host: "127.0.0.1", port: 8002 });
  expect(tritonOf("--host 0.0.0.0 --metrics-port 8002").listen).toEqual({ host: "0.0.0.0", port: 8002 });
  expect(tritonOf("--metrics-port 0 --metrics-address ::1").listen).toEqual({ host: "::1", port: 0 });
  expect(tritonOf("--metrics-port 8002 --allow-metrics=off")).toMatchObject({
    listen: null,
    metrics: false,
    gpu: false,
    cpu: false,
  });
  expect(tritonOf("--allow-gpu-metrics=false")).toMatchObject({ gpu: false, cpu: true });
  expect(tritonOf("--allow-cpu-metrics=0 --metrics-interval-ms 500")).toMatchObject({ cpu: false, intervalMs: 500 });
});

test.each([
  ["--allow-metrics=maybe", "true, on, 1, false, off or 0"],
  ["--metrics-port 70000", "a whole number from 0 to 65535"],
  ["--metrics-interval-ms 0", "a whole number from 1"],
  ["--metrics-port 0 --workers 2", "must be 1 to 65535"],
  ["--metrics-port 8000", "8000 is the port of the server"],
])("%s is refused with one line that names the accepted values", (line, accepted) => {
  expect(errorOf(line)).toContain(accepted);
  expect(errorOf(line)).not.toContain("\n");
});
