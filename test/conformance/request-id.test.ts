/** Tests where a client's `X-Request-Id` is returned. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type HostedServer, hosted } from "../hosted.ts";

setDefaultTimeout(30_000);

let server: HostedServer;
beforeAll(async () => {
  server = await hosted(["--served-model-name", "m", "--timing", "none", "--api-key", "a"]);
});
afterAll(async () => {
  await server.stop();
});

test("X-Request-Id is always in the answer's id, and is a header only with its flag", async () => {
  const ask = async (from: HostedServer, id: string | null) => {
    const headers = {
      "content-type": "application/json",
      Authorization: "Bearer a",
      ...(id ? { "x-request-id": id } : {}),
    };
    const body = JSON.stringify({ model: "m", prompt: "x", max_tokens: 1 });
    const answer = await fetch(`${from.url}/v1/completions`, { method: "POST", headers, body });
    return [((await answer.json()) as { id: string }).id, answer.headers.get("x-request-id")];
  };
  expect(await ask(server, "abc")).toEqual(["cmpl-abc", null]);
  const flagged = await hosted(["--served-model-name", "m", "--timing", "none", "--enable-request-id-headers"]);
  try {
    expect(await ask(flagged, "abc")).toEqual(["cmpl-abc", "abc"]);
    const [, made] = await ask(flagged, null);
    expect(made).toMatch(/^[0-9a-f]{32}$/);
    for (const path of ["/nothing", "/health"])
      expect((await fetch(flagged.url + path, { headers: { "x-request-id": "z" } })).headers.get("x-request-id")).toBe(
        "z",
      );
  } finally {
    await flagged.stop();
  }
});
