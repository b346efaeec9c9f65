/**
 * Checks the chart's values and files against the program: roles, options, ports, versions, dashboards. Needs no Helm, because
 * it reads the schema and the rendered manifests.
 */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import Ajv from "ajv";
import { parse } from "yaml";
import { chartCopies, chartDigest, RENDERED, RENDERED_FOR_TESTS, valuesOf } from "../../scripts/chart.ts";
import {
  CHART,
  chartRoles,
  NOT_IN_VALUES,
  OPTION_TABLES,
  optionsOfChart,
  optionsOfValues,
  valuesSchemaText,
} from "../../scripts/chart-schema.ts";
import { ROLE_NAMES } from "../../src/app/config/roles.ts";
import { readManifests, root, type Yaml } from "./objects.ts";
import { workloadIn } from "./workload.ts";

const read = (path: string) => readFileSync(root + path, "utf8");
const files = readManifests();
const workloads = () => [...files.values()].flatMap((objects) => workloadIn(objects) ?? []);

test("the schema and the copies of dashboards and rules are up to date (npx bun scripts/chart.ts)", () => {
  expect(read("deploy/helm/understudy/values.schema.json")).toBe(valuesSchemaText());
  for (const [to, from] of chartCopies()) expect([to, read(to) === read(from)]).toEqual([to, true]);
  const copies = ["grafana", "rules"].flatMap((name) => readdirSync(`${CHART}files/${name}`));
  expect(copies).toHaveLength(chartCopies().size);
});

test("the rendered manifests are those of this chart (npx bun scripts/chart.ts --helm FILE)", () => {
  expect(files.size).toBeGreaterThan(8);
  const others = [...files.keys()].filter((path) => !read(path).split("\n")[0]!.endsWith(` Chart: ${chartDigest()}`));
  expect(others).toEqual([]);
  const releases = new Set([...files.keys()].map((path) => path.split("/").at(-2)!));
  expect([...releases].sort()).toEqual([...RENDERED, ...RENDERED_FOR_TESTS].sort());
});

test("chart, application and image have the version of the package", () => {
  const { version } = JSON.parse(read("package.json"));
  const chart = parse(read("deploy/helm/understudy/Chart.yaml"));
  expect([chart.version, chart.appVersion]).toEqual([version, version]);
  const images = workloads().map(({ container }) => container.image);
  expect(images).toEqual(images.map(() => `llm-understudy:${version}`));
});

test("the chart knows every role, and the rendered manifests show each", () => {
  expect(Object.keys(chartRoles).sort()).toEqual([...ROLE_NAMES, "triton-openai"].sort());
  expect([...new Set(workloads().map(({ options }) => options.role))].sort()).toEqual([...ROLE_NAMES].sort());
});

/** Options that are ports but not listeners of the chart, by role. */
const OTHER_PORTS: Readonly<Record<string, readonly string[]>> = {
  vllm: ["metrics-port", "data-parallel-rpc-port"],
  "trtllm-serve": ["metrics-port", "http2-port", "data-parallel-rpc-port"],
  "vllm-engine": ["metrics-port", "http2-port", "data-parallel-rpc-port"],
  triton: ["kserve-http-port", "kserve-grpc-port"],
};

test.each(ROLE_NAMES)("%s: each option is set by the chart or by values, and each port has a name", (role) => {
  const table = OPTION_TABLES[role];
  const own = optionsOfChart(role);
  expect([...own].filter((name) => !Object.hasOwn(table, name))).toEqual([]);
  const open = optionsOfValues(role);
  const unset = Object.keys(table).filter((name) => !own.has(name) && !Object.hasOwn(open, name));
  expect(unset.filter((name) => !Object.hasOwn(NOT_IN_VALUES, name) && !OTHER_PORTS[role]!.includes(name))).toEqual(
    unset.includes("metrics-address") ? ["metrics-address"] : [],
  );
  const ports = Object.keys(table).filter((name) => /(^|-)port$/.test(name));
  expect(ports.length).toBeGreaterThan(1);
  expect(ports.filter((name) => !own.has(name) && !OTHER_PORTS[role]!.includes(name))).toEqual([]);
});

test("options that values may not set exist, and so do those of files and defaults", () => {
  const all = new Set(Object.values(OPTION_TABLES).flatMap(Object.keys));
  expect(Object.keys(NOT_IN_VALUES).filter((name) => !all.has(name))).toEqual([]);
  for (const [name, { set, defaults = {}, files }] of Object.entries(chartRoles)) {
    const table = OPTION_TABLES[set.role as keyof typeof OPTION_TABLES];
    const used = [...Object.keys(set), ...Object.keys(defaults), ...Object.values(files)];
    // The command reads the role before it knows the table.
    expect([name, used.filter((option) => option !== "role" && !Object.hasOwn(table, option))]).toEqual([name, []]);
  }
});

test.each(workloads().map((workload) => [workload.object.metadata.name, workload] as const))(
  "%s: the server accepts its options without a notice, and listens on the ports of the container",
  (_, { container, options, resolved }) => {
    expect(resolved).toMatchObject({ ignored: [], notices: [] });
    const ports = Object.fromEntries(container.ports.map((port: Yaml) => [port.name, port.containerPort]));
    for (const [name, { port, address }] of Object.entries(chartRoles[options.role as string]!.listeners)) {
      expect([name, ports[name]]).toEqual([name, options[port] === undefined ? undefined : Number(options[port])]);
      if (address) expect([address, options[address]]).toEqual([address, "0.0.0.0"]);
    }
  },
);

test("a number of many digits arrives as it is", () => {
  const { options } = workloads().find(({ options }) => options.role === "trtllm-serve")!;
  expect(options["iter-stats-max-iterations"]).toBe(100_000);
});

const ajv = new Ajv({ strict: false });
const validate = ajv.compile(JSON.parse(read("deploy/helm/understudy/values.schema.json")));
const errorsOf = (values: unknown) =>
  validate(values) ? [] : validate.errors!.map((error) => `${error.instancePath} ${JSON.stringify(error.params)}`);

test.each(["deploy/helm/understudy/values.yaml", ...[...RENDERED, ...RENDERED_FOR_TESTS].map(valuesOf)])(
  "%s fits the schema",
  (path) => {
    expect(errorsOf(parse(read(path)))).toEqual([]);
  },
);

test("the schema has every value of values.yaml, and values.yaml every value of the schema", () => {
  const shape = (value: Yaml, properties: Yaml): unknown =>
    properties === undefined
      ? null
      : Object.fromEntries(
          Object.keys(properties)
            .filter((name) => name !== "global")
            .sort()
            .map((name) => [name, shape(value?.[name], properties[name].properties)]),
        );
  const names = (value: Yaml, properties: Yaml): unknown =>
    properties === undefined
      ? null
      : Object.fromEntries(
          Object.keys(value ?? {})
            .sort()
            .map((name) => [name, names(value[name], properties[name]?.properties)]),
        );
  const values = parse(read("deploy/helm/understudy/values.yaml"));
  const { properties } = JSON.parse(valuesSchemaText());
  // `ports` is empty by default.
  const { ports: _, ...others } = shape(values, properties) as Yaml;
  const { ports: __, ...own } = names(values, properties) as Yaml;
  expect(own).toEqual(others);
});

test.each<[what: string, values: object, path: string]>([
  ["an option that no server has", { options: { "max-num-seq": 1 } }, "/options"],
  ["an option of another role", { role: "triton", options: { "max-num-queued-reqs": 1 } }, "/options"],
  ["a port as an option", { options: { port: 80 } }, "/options"],
  ["an option that probes could not pass", { options: { "ssl-cert-reqs": 2 } }, "/options"],
  ["a text for a switch", { options: { "enable-lora": "yes" } }, "/options/enable-lora"],
  ["a text for a list", { options: { "served-model-name": "a" } }, "/options/served-model-name"],
  ["a choice that does not exist", { options: { "scheduling-policy": "lifo" } }, "/options/scheduling-policy"],
  ["a role that does not exist", { role: "sglang" }, "/role"],
  ["a misspelled value", { replica: 2 }, ""],
  ["a misspelled member", { hpa: { enable: true } }, "/hpa"],
  ["a port out of range", { ports: { http: 80_000 } }, "/ports/http"],
  ["a port without a listener", { ports: { zmq: 5557 } }, "/ports"],
  ["a fixture that the server would not read", { fixtures: { "notes.txt": "x" } }, "/fixtures"],
  ["a file outside a model's folder", { role: "triton", modelRepository: { "config.pbtxt": "x" } }, "/modelRepository"],
  ["a key with a comma", { keys: { api: ["a,b"] } }, "/keys/api/0"],
])("the schema refuses %s", (_, values, path) => {
  expect(errorsOf(values).map((error) => error.split(" ")[0])).toContain(path);
});
