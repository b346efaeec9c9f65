/** Tests that a handler can read the socket's request and the web `Request` in the same way. */
import { expect, test } from "bun:test";
import type { HttpRequest } from "../../../src/wire/http/request.ts";
import { HeaderFields, IncomingRequest } from "../../../src/wire/http1/request.ts";

const BODY = '{"prompt":"Grüße","n":2}';
const reading = { pause() {}, resume() {}, bodyWanted() {} };

function fromSocket(body: string): HttpRequest {
  const fields = new HeaderFields(["Content-Type", "X-A"], ["application/json", "1"]);
  const head = { method: "POST", target: "/a?b=1", version: "1.1", keepAlive: true, fields };
  const request = new IncomingRequest(head, "http", reading);
  const bytes = Buffer.from(body);
  // Two parts that split a character.
  const cut = body.indexOf("ü") + 1;
  request.came(bytes.subarray(0, cut));
  request.came(bytes.subarray(cut));
  request.ended();
  return request;
}

const fromProgram = (body: string): HttpRequest =>
  new Request("http://localhost/a?b=1", {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-A": "1" },
    body,
  });

for (const [name, requestOf] of Object.entries({ fromSocket, fromProgram })) {
  test(`${name}: head`, () => {
    const { method, url, headers, signal } = requestOf(BODY);
    const lines: string[] = [];
    headers.forEach((value, header) => {
      lines.push(`${header}: ${value}`);
    });
    expect([method, url, headers.get("x-a"), headers.get("x-b"), headers.has("x-b"), signal.aborted]).toEqual([
      "POST",
      "http://localhost/a?b=1",
      "1",
      null,
      false,
      false,
    ]);
    expect(lines).toEqual(["content-type: application/json", "x-a: 1"]);
  });

  test(`${name}: body as bytes, text, JSON and parts`, async () => {
    expect(Buffer.from(await requestOf(BODY).bytes()).toString()).toBe(BODY);
    expect(await requestOf(BODY).text()).toBe(BODY);
    expect(await requestOf(BODY).json()).toEqual({ prompt: "Grüße", n: 2 });
    const parts: Uint8Array[] = [];
    for await (const part of requestOf(BODY).body ?? []) parts.push(part);
    expect(Buffer.concat(parts).toString()).toBe(BODY);
  });

  test(`${name}: a body that is not JSON`, async () => {
    await expect(requestOf("{").json()).rejects.toBeInstanceOf(SyntaxError);
  });
}
