/** Checks the table of servers: each server can be loaded, and its code is only loaded when it is started. */

import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { ROLE_NAMES, type RoleName } from "../../src/app/config/roles.ts";
import type { ServeConfig } from "../../src/app/config/serve-config.ts";
import { loadServer, servers } from "../../src/app/table.ts";
import { valueImportsOf } from "../tidy-rules.ts";

const root = new URL("../../", import.meta.url).pathname;

/** Returns the path of a file and of all files that it imports, directly or through others. */
function loadedWith(first: string): Set<string> {
  const loaded = new Set<string>();
  const wanted = [first];
  for (let path = wanted.pop(); path !== undefined; path = wanted.pop()) {
    if (loaded.has(path) || !existsSync(root + path)) continue;
    loaded.add(path);
    if (path.endsWith(".ts")) wanted.push(...valueImportsOf({ path, text: readFileSync(root + path, "utf8") }));
  }
  return loaded;
}

const configOf = (role: RoleName, parts: object) => ({ role, openai: {}, ...parts }) as ServeConfig;

test("each server of the table can be loaded, and names the parts of the configuration that it reads", async () => {
  expect(Object.keys(servers)).toEqual([...ROLE_NAMES]);
  for (const name of ROLE_NAMES) {
    const { options, start } = await loadServer(configOf(name, { triton: {}, iterations: {}, join: {} }));
    expect(start).toBeFunction();
    expect(options).toContain("openai");
  }
});

test("a server is not started without a part of the configuration that it reads", async () => {
  await expect(loadServer(configOf("triton", {}))).rejects.toThrow("the configuration of triton has no triton");
  await expect(loadServer(configOf("trtllm-serve", {}))).rejects.toThrow("has no iterations");
  await expect(loadServer(configOf("vllm-engine", {}))).rejects.toThrow("has no join");
});

test("the code that every server loads has no code of a role or of an API's dialect", () => {
  const common = [...loadedWith("src/app/create-app.ts")];
  expect(common).toContain("src/engine/loop.ts");
  const ofServers = (path: string) => path.startsWith("src/servers/");
  expect(common.filter(ofServers)).toEqual(["src/servers/openai/front/served.ts"]);
  expect(common.filter((path) => /iterations/.test(path))).toEqual([]);
  const vllm = [...loadedWith("src/servers/vllm/server.ts")];
  expect(vllm).toContain("src/servers/vllm/openai/routes.ts");
  expect(vllm.filter((path) => /^src\/servers\/(trtllm|triton)\/|iterations/.test(path))).toEqual([]);
  const trtllm = [...loadedWith("src/servers/trtllm/server.ts")];
  expect(trtllm).toContain("src/servers/trtllm/app.ts");
  expect(trtllm.filter((path) => /^src\/servers\/(triton|vllm\/messages)\//.test(path))).toEqual([]);
});
