/**
 * Tests large bodies of `/infer`: they return unchanged, get the same errors as small ones, and do not hold up other requests.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deflateSync, gzipSync } from "node:zlib";
import { hostTriton, type TritonHosted } from "./child.ts";

const base = mkdtempSync(join(tmpdir(), "triton-large-"));
let child: TritonHosted;
beforeAll(async () => {
  for (const type of ["INT32", "FP32", "STRING"]) {
    mkdirSync(join(base, type, "1"), { recursive: true });
    const config = `backend: "python" input { name: "x" data_type: TYPE_${type} dims: [ -1 ] } output { name: "y" data_type: TYPE_${type} dims: [ -1 ] }`;
    writeFileSync(join(base, type, "config.pbtxt"), config);
    writeFileSync(join(base, type, "behaviour.yaml"), "behaviour: identity");
  }
  child = await hostTriton([`--model-repository=${base}`]);
});
afterAll(async () => {
  await child.stop(0);
  rmSync(base, { recursive: true, force: true });
});

const post = (type: string, body: string | Uint8Array, headers: Record<string, string> = {}) =>
  fetch(`${child.url}/v2/models/${type}/infer`, { method: "POST", body, headers });
const bodyOf = (datatype: string, count: number, data: string, more = "") =>
  `{"inputs":[{"name":"x","shape":[${count}],"datatype":"${datatype}","data":[${data}]}]${more}}`;
const COUNT = 50_000;
const listed = (one: (at: number) => string) => Array.from({ length: COUNT }, (_, at) => one(at)).join(",");

const ENCODINGS = ["identity", "gzip", "deflate"];
test.each([
  ["INT32", "INT32", (at: number) => `${at * 7 - 1000}`],
  ["FP32", "FP32", (at: number) => `${at}.5`],
  ["STRING", "BYTES", (at: number) => `"text ${at} \\"\\u00e9"`],
])("%s in and out", async (type, datatype, one) => {
  const given = JSON.parse(`[${listed(one)}]`);
  const body = Buffer.from(bodyOf(datatype, COUNT, listed(one)));
  for (const encoding of ENCODINGS) {
    const sent = encoding === "identity" ? body : (encoding === "gzip" ? gzipSync : deflateSync)(body);
    const answer = await post(type, sent, { "Accept-Encoding": encoding, "Content-Encoding": encoding });
    const text = await answer.text();
    expect(answer.status).toBe(200);
    if (encoding === "identity") expect(answer.headers.get("content-length")).toBe(`${Buffer.byteLength(text)}`);
    else expect(answer.headers.get("content-encoding")).toBe(encoding);
    expect(JSON.parse(text)).toEqual({
      model_name: type,
      model_version: "1",
      outputs: [{ name: "y", datatype, shape: [COUNT], data: given }],
    });
  }
});

test("binary tensors in and out, and texts that are counted in slices", async () => {
  const send = async (type: string, datatype: string, count: number, data: Buffer) => {
    const head = `{"inputs":[{"name":"x","shape":[${count}],"datatype":"${datatype}","parameters":{"binary_data_size":${data.length}}}],"parameters":{"binary_data_output":true}}`;
    const headers = { "Inference-Header-Content-Length": `${head.length}` };
    const answer = await post(type, Buffer.concat([Buffer.from(head), data]), headers);
    const bytes = Buffer.from(await answer.arrayBuffer());
    const headLength = Number(answer.headers.get("inference-header-content-length") ?? bytes.length);
    return { status: answer.status, said: bytes.toString("latin1", 0, headLength), data: bytes.subarray(headLength) };
  };
  const floats = Buffer.from(Float32Array.from({ length: 300_000 }, (_, at) => at / 3).buffer);
  const back = await send("FP32", "FP32", 300_000, floats);
  expect(back.status).toBe(200);
  expect(Buffer.compare(back.data, floats)).toBe(0);
  const texts = Buffer.concat(new Array<Buffer>(COUNT).fill(Buffer.from("\x03\0\0\0one")));
  expect(Buffer.compare((await send("STRING", "BYTES", COUNT, texts)).data, texts)).toBe(0);
  expect((await send("STRING", "BYTES", COUNT + 1, texts)).said).toContain(
    `expected ${COUNT + 1} string elements for inference input 'x' for model 'STRING', got ${COUNT}`,
  );
  expect((await send("STRING", "BYTES", COUNT, texts.subarray(0, texts.length - 1))).said).toContain(
    "expecting string of length 3 but only 2 bytes available",
  );
});

test("errors are the same as for small bodies", async () => {
  const said = async (body: string) => {
    const answer = await post("INT32", body);
    return [answer.status, ((await answer.json()) as { error: string }).error];
  };
  const many = listed((at) => `${at}`);
  expect(await said(bodyOf("INT32", COUNT, `${many},x`))).toEqual([
    500,
    `failed to parse the request JSON buffer: Invalid value. at ${bodyOf("INT32", COUNT, `${many},`).length - 4}`,
  ]);
  const unparsed = "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer";
  expect(await said(bodyOf("INT32", COUNT + 1, `${many},1.5`))).toEqual([500, unparsed]);
  expect(await said(bodyOf("INT32", COUNT + 1, many))).toEqual([
    500,
    "Failed to parse 'data' field: shape does not match true shape",
  ]);
  expect((await said(bodyOf("FP32", COUNT, many)))[1]).toContain("data-type is 'FP32', but model 'INT32' expects");
});

test("a short request that arrives after a large one is answered first", async () => {
  const order: string[] = [];
  const count = 1_000_000;
  const large = bodyOf("FP32", count, new Array(count).fill("0.123456789").join(","));
  const first = post("FP32", large).then(async (answer) => {
    await answer.arrayBuffer();
    order.push("large");
  });
  const short = bodyOf("INT32", 1, "1");
  for (let at = 0; at < 5; at++) {
    await (await post("INT32", short)).arrayBuffer();
    order.push("short");
  }
  await first;
  expect(order).toEqual(["short", "short", "short", "short", "short", "large"]);
});
