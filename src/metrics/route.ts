/** Where are the metrics served? `/metrics` in the role's dialect with our own families behind it, and each by itself. */
import { Elysia } from "elysia";
import type { Snapshot } from "../engine/types.ts";
import type { View } from "./page.ts";
import { Renderer, TooManyScrapes } from "./renderer.ts";
import type { Identity } from "./table.ts";

// Recorded from vLLM 0.33 with prometheus_client 0.26, which answers so whatever Accept says.
const CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8";

/** `scrape` is called once per page made, on the loop's thread, and returns copied numbers. */
export function metrics(scrape: () => Snapshot, identity: Identity) {
  const renderer = new Renderer(scrape, identity);
  const answer = async (view: View) => {
    try {
      return new Response(await renderer.page(view), { headers: { "content-type": CONTENT_TYPE } });
    } catch (reason) {
      if (!(reason instanceof TooManyScrapes)) throw reason;
      return new Response("too many scrapes at once\n", { status: 503, headers: { "retry-after": "1" } });
    }
  };
  return new Elysia()
    .get("/metrics", () => answer("role"))
    .get("/metrics/vllm", () => answer("vllm"))
    .get("/metrics/understudy", () => answer("understudy"))
    .onStop(() => renderer.stop());
}
