/** Is a role a value, and its code loaded only when somebody asks for it? */

import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { ROLE_NAMES, type RoleName } from "../../src/app/config/roles.ts";
import type { ServeConfig } from "../../src/app/config/serve-config.ts";
import { roles } from "../../src/app/table.ts";
import { valueImportsOf } from "../tidy-rules.ts";

const root = new URL("../../", import.meta.url).pathname;

/** All files that loading this one loads. */
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

test("each role of the table can be loaded, and opens listeners", async () => {
  expect(Object.keys(roles)).toEqual([...ROLE_NAMES]);
  const configOf = (role: RoleName) => ({ role, triton: {}, trtllm: {} }) as ServeConfig;
  for (const name of ROLE_NAMES) expect(await roles[name](configOf(name))).toEqual({ listen: expect.any(Function) });
});

test("what every server loads has no code of a role, nor of a dialect of its API", () => {
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
