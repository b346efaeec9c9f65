/**
 * Checks on running servers what the chart says about roles: the paths of probes, the pages that Prometheus scrapes, and the
 * series that the autoscalers' queries read.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { chartRoles } from "../../scripts/chart-schema.ts";
import { type HostedServer, hostedAs } from "../hosted.ts";
import { eventually } from "../server.ts";
import { SmallFront } from "../servers/vllm-engine/small-front.ts";
import { hostTriton } from "../triton/child.ts";

setDefaultTimeout(60_000);

interface RunningRole {
  readonly server: HostedServer;
  /** URL of each listener that probes and scrapes use. */
  readonly urls: Readonly<Record<string, string>>;
}

/** Starts a server with the options that the chart sets for the role, on free ports. */
async function started(name: string): Promise<RunningRole> {
  const { set, defaults = {} } = chartRoles[name]!;
  const flags = Object.entries({ ...defaults, ...set }).map(([option, value]) =>
    value === true ? `--${option}` : `--${option}=${value}`,
  );
  if (set.role === "vllm-engine") {
    // The engine is ready when it has joined a front end.
    const front = new SmallFront();
    const server = await hostedAs([...flags, "--port", "0", `--data-parallel-rpc-port=${front.rpcPort}`]);
    await front.until(() => front.statuses.includes("READY"));
    const stop = async (graceS?: number) => {
      await front.close();
      await server.stop(graceS);
    };
    return { server: { ...server, stop }, urls: { http: server.url } };
  }
  if (set.role !== "triton") {
    const server = await hostedAs([...flags, "--port", "0"]);
    return { server, urls: { http: server.url } };
  }
  const others = flags.filter((flag) => flag !== "--role=triton");
  const server = await hostTriton(set.openai ? [...others, "--openai-port=0"] : others);
  return { server, urls: { http: set.openai ? server.openai : server.url, metrics: server.metrics } };
}

test.each(Object.keys(chartRoles))(
  "%s: probes pass, and the scraped pages have the series of the autoscalers",
  async (name) => {
    const { probe, scrape, keda, hpa } = chartRoles[name]!;
    const { server, urls } = await started(name);
    try {
      for (const path of [probe.ready, probe.live])
        if (path) expect([path, (await fetch(`${urls[probe.listener]}${path}`)).status]).toEqual([path, 200]);
      // trtllm-serve shows its last iteration, so there must have been one.
      if (name === "trtllm-serve") {
        const { data } = (await (await fetch(`${urls.http}/v1/models`)).json()) as { data: readonly { id: string }[] };
        const body = JSON.stringify({ model: data[0]!.id, prompt: "Hello", max_tokens: 1 });
        const headers = { "content-type": "application/json" };
        const response = await fetch(`${urls.http}/v1/completions`, { method: "POST", headers, body });
        expect([response.status, await response.text()]).toEqual([200, expect.stringContaining("usage")]);
      }
      const missingSeries = async () => {
        let all = "";
        for (const { path } of scrape.pages) {
          // Prometheus asks for OpenMetrics, where counters have other names.
          const accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
          const response = await fetch(`${urls[scrape.listener]}${path}?format=text`, { headers: { accept } });
          const page = await response.text();
          const facts = [path, response.status, /^# TYPE /m.test(page), page.includes("# EOF")];
          expect(facts).toEqual([path, 200, true, false]);
          all += page;
        }
        const kept = all.split("\n").filter((line) => !scrape.keep || new RegExp(`^(?:${scrape.keep})`).test(line));
        const read = new Set([...keda, hpa].flatMap(({ query }) => query.match(/\b(?:vllm:|nv_|trtllm_)\w+/g)!));
        return [...read].filter(
          (series) => !kept.some((line) => /[{ ]/.test(line[series.length] ?? "") && line.startsWith(series)),
        );
      };
      // trtllm-serve shows an iteration only after it has answered.
      await eventually(async () => {
        expect(await missingSeries()).toEqual([]);
        return true;
      });
    } finally {
      await server.stop(0);
    }
  },
);
