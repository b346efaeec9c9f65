/** Which tables make up a page, and what is its text? Runs in the worker: nothing on the loop's thread imports this. */
import Registry from "prom-client/lib/registry.js";
import type { Snapshot } from "../engine/types.ts";
import { type Identity, register } from "./table.ts";
import { type Family, printFamilies } from "./text.ts";
import { understudy } from "./understudy.ts";
import { vllm } from "./vllm.ts";

/** `role` is what `/metrics` shows: the dialect of the role, then our own families. */
export type View = "role" | "vllm" | "understudy";

/** Returns a renderer: one registry per view, all families of a page from the one snapshot given. */
export function pages(identity: Identity): (view: View, snapshot: Snapshot) => Promise<string> {
  const engineTable = identity.disableLogStats ? [] : vllm;
  const tables = { role: [...engineTable, ...understudy], vllm: engineTable, understudy };
  let held: Snapshot;
  const registryOf = (view: View) => {
    const registry = new Registry();
    register(tables[view], registry, () => held, identity);
    return registry;
  };
  const registries = { role: registryOf("role"), vllm: registryOf("vllm"), understudy: registryOf("understudy") };
  return async (view, snapshot) => {
    held = snapshot; // read before the first await: each row's `get` is synchronous
    const families = registries[view].getMetricsAsJSON();
    return printFamilies((await families) as unknown as Family[]);
  };
}
