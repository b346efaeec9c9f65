/** Checks deploy/compose.yaml: its schema, its commands, and that the files that it mounts exist and fit together. */
import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { version } from "../../package.json";
import { takeLoadArguments } from "../../src/cli/load/load-args.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";
import { COMPOSE, composeErrors, composeFile, mountsOf, readYaml } from "./compose.ts";

const root = new URL("../../", import.meta.url).pathname;
const { server, load, prometheus, grafana } = composeFile.services;

test("the file keeps the schema of the Compose specification", () => {
  expect(composeErrors(composeFile)).toEqual([]);
});

test.each([
  ["server", "imagee", "understudy", "/services/server: must NOT have unevaluated properties"],
  ["server", "ports", 8000, "/services/server/ports: must be array"],
  ["server", "read_only", 3, "/services/server/read_only: must be boolean,string"],
  [
    "load",
    "depends_on",
    { server: { condition: "healthy" } },
    "/services/load/depends_on/server/condition: must be eq",
  ],
  ["load", "healthcheck", { disabled: true }, "/services/load/healthcheck: must NOT have additional properties"],
  ["load", "restart", 1, "/services/load/restart: must be string"],
  ["prometheus", "volumes", [{ source: "." }], "/services/prometheus/volumes/0: must have required property 'type'"],
  ["grafana", "environment", "a", "/services/grafana/environment: must be object"],
  ["grafana", "image", null, "/services/grafana/image: must be string"],
] as const)("the schema refuses %s with %s", (service, key, value, error) => {
  const spoiled = { ...composeFile.services, [service]: { ...composeFile.services[service], [key]: value } };
  const errors = composeErrors({ ...composeFile, services: spoiled });
  expect(errors.filter((found) => found.startsWith(error))).not.toEqual([]);
});

test("its commands are accepted, and the server listens on all addresses", () => {
  const [serve, ...words] = server.command!;
  expect(serve).toBe("serve");
  expect(resolveServeConfig(words, {}, () => "")).toMatchObject({
    config: { listen: { host: "0.0.0.0", port: 8000 } },
  });
  const [command, ...options] = load.command!;
  expect(command).toBe("load");
  expect(takeLoadArguments(options)).not.toHaveProperty("error");
  expect(options).toContain("--url=http://server:8000");
});

test("our image has the version of the package, and its containers need no right and no file to write", () => {
  for (const service of [server, load]) {
    expect(service.image).toBe(`llm-understudy:${version}`);
    expect(service).toMatchObject({ read_only: true, cap_drop: ["ALL"] });
  }
});

test("only this machine reaches the published ports", () => {
  const ports = Object.values(composeFile.services).flatMap(({ ports = [] }) => ports as string[]);
  expect(ports.length).toBeGreaterThan(2);
  expect(ports.filter((port) => !port.startsWith("127.0.0.1:"))).toEqual([]);
});

test("each mounted file exists, and is mounted to be read only", () => {
  const mounts = [prometheus, grafana].flatMap(mountsOf);
  expect(mounts.length).toBeGreaterThan(4);
  expect(mounts.filter(({ from }) => !existsSync(root + from))).toEqual([]);
  const texts = [prometheus, grafana].flatMap(({ volumes = [] }) => volumes);
  expect(texts.filter((text) => !text.endsWith(":ro"))).toEqual([]);
});

test("Prometheus has the jobs and the rules of deploy/prometheus, at the server's address", () => {
  const text = (path: string) => readFileSync(root + path, "utf8").replace(/^#.*\n/gm, "");
  expect(text("deploy/compose/prometheus.yml")).toBe(
    text("deploy/prometheus/prometheus.yml").replaceAll("127.0.0.1:8000", "server:8000"),
  );
  const [config, rules] = mountsOf(prometheus);
  expect(config).toEqual({ from: "deploy/compose/prometheus.yml", to: "/etc/prometheus/prometheus.yml" });
  expect(rules).toEqual({ from: "deploy/prometheus/rules", to: "/etc/prometheus/rules" });
});

test("Grafana has the data source that the dashboards choose, and all dashboards", () => {
  const mounts = mountsOf(grafana);
  const at = (folder: string) => mounts.find(({ to }) => to.startsWith(`/etc/grafana/provisioning/${folder}/`))!.from;
  const { datasources } = readYaml(at("datasources")) as { datasources: Record<string, unknown>[] };
  expect(datasources).toMatchObject([{ type: "prometheus", url: "http://prometheus:9090", isDefault: true }]);
  const interval = readYaml("deploy/compose/prometheus.yml") as { global: { scrape_interval: string } };
  expect(datasources[0]!.jsonData).toEqual({ timeInterval: interval.global.scrape_interval });
  const { providers } = readYaml(at("dashboards")) as { providers: { options: { path: string } }[] };
  const from = mounts.find(({ to }) => to === providers[0]!.options.path)!.from;
  const dashboards = readdirSync(root + from);
  expect(dashboards.length).toBe(4);
  for (const name of dashboards) {
    const { templating } = JSON.parse(readFileSync(`${root}${from}/${name}`, "utf8"));
    expect(templating.list).toContainEqual(expect.objectContaining({ type: "datasource", query: "prometheus" }));
  }
});

test("the head of the file names the ports that it publishes", () => {
  const head = readFileSync(root + COMPOSE, "utf8").split("\nname:")[0]!;
  const named = [...head.matchAll(/http:\/\/127\.0\.0\.1:(\d+)/g)].map(([, port]) => port!);
  const published = Object.values(composeFile.services).flatMap(({ ports = [] }) => ports as string[]);
  expect(named.sort()).toEqual(published.map((port) => port.split(":")[1]!).sort());
});
