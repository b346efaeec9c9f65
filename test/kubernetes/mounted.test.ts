/**
 * Checks that servers read the files of the rendered ConfigMaps from volumes as the kubelet lays them out. A volume's files are
 * links into a folder, which the kubelet replaces as a whole when the ConfigMap changes.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { eventually, serve } from "../server.ts";
import { startTriton } from "../triton/child.ts";
import { type KubernetesObject, readManifests, type Yaml } from "./objects.ts";

setDefaultTimeout(30_000);

const files = readManifests();
const folder = mkdtempSync(join(tmpdir(), "understudy-mounted-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Mount {
  /** Folder that stands for the mount path in the container. */
  readonly path: string;
  /** Replaces the volume's files, as the kubelet does after a change of the ConfigMap. */
  update(data: Readonly<Record<string, string>>): void;
}

/** Lays out the files of a volume as the kubelet does (`pkg/volume/util/atomic_writer.go`). */
function mounted(volume: Yaml, data: Readonly<Record<string, string>>): Mount {
  const path = join(folder, volume.name);
  mkdirSync(path, { recursive: true });
  let round = 0;
  const update = (data: Readonly<Record<string, string>>) => {
    const moment = `..2026_11_28.${++round}`;
    const items = volume.configMap.items ?? Object.keys(data).map((key) => ({ key, path: key }));
    for (const { key, path: to } of items) {
      const file = join(path, moment, to);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, data[key]!);
    }
    symlinkSync(moment, join(path, "..data_tmp"));
    renameSync(join(path, "..data_tmp"), join(path, "..data"));
    for (const top of new Set<string>(items.map((item: Yaml) => item.path.split("/")[0])))
      if (round === 1) symlinkSync(`..data/${top}`, join(path, top));
  };
  update(data);
  return { path, update };
}

/** Mounts the ConfigMaps of a release. Returns them by the name of the volume, and the arguments with the paths of here. */
function pod(release: string) {
  const objects = files.get(`deploy/kubernetes/${release}/server.yaml`)!;
  const { template } = objects.find(({ kind }) => kind === "Deployment")!.spec;
  const dataOf = (name: string): Readonly<Record<string, string>> =>
    objects.find((object: KubernetesObject) => object.kind === "ConfigMap" && object.metadata.name === name)!.data;
  const here = (text: string) => text.replaceAll("/etc/understudy", folder);
  const mounts = new Map<string, Mount>();
  for (const volume of template.spec.volumes.filter(({ configMap }: Yaml) => configMap)) {
    const data = dataOf(volume.configMap.name);
    const own = Object.fromEntries(Object.entries(data).map(([key, text]) => [key, here(text)]));
    mounts.set(volume.name, mounted(volume, own));
  }
  return { mounts, args: template.spec.containers[0].args.slice(1).map(here) as string[], dataOf };
}

test("vLLM reads options, fixtures, scripts and a fault plan from ConfigMaps, and reads changed ones again", async () => {
  const { mounts, args } = pod("vllm");
  const server = await serve([...args, "--host", "127.0.0.1", "--timing", "none"]);
  const answer = async (content: string, more: object = {}) => {
    const messages = [{ role: "user", content }];
    const body = JSON.stringify({ model: "meta-llama/Llama-3.1-8B-Instruct", messages, ...more });
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${server.url}/v1/chat/completions`, { method: "POST", headers, body });
    const { choices } = (await response.json()) as Yaml;
    return { text: choices?.[0].message.content, status: response.status, id: response.headers.get("x-request-id") };
  };
  try {
    const { text, id } = await answer("What about the weather?");
    expect([text, id]).toEqual(["It is 21 °C and sunny.", expect.any(String)]);
    expect((await answer("Hi", { understudy: { play: "greeting" } })).text).toBe("Hello from the cluster.");
    mounts
      .get("fixtures")!
      .update({ "weather.yaml": "fixtures:\n  - match: {user: {contains: weather}}\n    answer: Rain.\n" });
    await eventually(async () => (await answer("The weather again")).text === "Rain.");
    mounts.get("fault-plan")!.update({ "plan.yaml": "faults:\n  - plan: A1\n" });
    await eventually(async () => (await answer("Hi")).status !== 200);
  } finally {
    await server.stop();
  }
});

test("Triton serves a model repository from a ConfigMap, sees no other model in the volume, and polls a change", async () => {
  const { mounts, args, dataOf } = pod("triton");
  const flags = args.filter((word) => /--(model|repository|metrics-config)/.test(word));
  expect(flags.length).toBeGreaterThan(3);
  const server = await startTriton([...flags, "--repository-poll-secs=1", "--load-time=0", "--unload-time=0"]);
  const post = async (path: string, body: object) =>
    (await (await fetch(`${server.url}/v2/${path}`, { method: "POST", body: JSON.stringify(body) })).json()) as Yaml;
  try {
    const index = await post("repository/index", {});
    expect(index.map(({ name, state }: Yaml) => `${name} ${state}`).sort()).toEqual(["adder READY", "writer READY"]);
    const tensor = (name: string, data: number[]) => ({ name, shape: [1, 4], datatype: "FP32", data });
    const inputs = [tensor("INPUT0", [1, 2, 3, 4]), tensor("INPUT1", [4, 3, 2, 1])];
    expect((await post("models/adder/infer", { inputs })).outputs[0].data).toEqual([5, 5, 5, 5]);
    expect((await post("models/writer/generate", { text_input: "Hello", max_tokens: 3 })).text_output).toEqual(
      expect.any(String),
    );
    const data = dataOf("triton-models");
    mounts.get("models")!.update({ ...data, "adder__behaviour.yaml": "behaviour: sleep\noptions: {ms: 1}\n" });
    await eventually(async () => (await post("models/adder/infer", { inputs })).outputs?.[0].data[0] !== 5);
  } finally {
    await server.stop();
  }
});
