/** Tests which requests `--http-max-input-size` refuses, and the messages. Binary tensors are never refused. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deflateSync, gzipSync } from "node:zlib";
import { hostTriton, type TritonHosted } from "./child.ts";

const MOST = 1000;
const ADVICE = "Use --http-max-input-size to increase the limit.";
const base = mkdtempSync(join(tmpdir(), "triton-limits-"));
let child: TritonHosted;
let old: TritonHosted;
beforeAll(async () => {
  mkdirSync(join(base, "same", "1"), { recursive: true });
  const config = `backend: "python" input { name: "x" data_type: TYPE_INT64 dims: [ -1 ] } output { name: "y" data_type: TYPE_INT64 dims: [ -1 ] }`;
  writeFileSync(join(base, "same", "config.pbtxt"), config);
  writeFileSync(join(base, "same", "behaviour.yaml"), "behaviour: identity");
  mkdirSync(join(base, "texts", "1"), { recursive: true });
  writeFileSync(join(base, "texts", "config.pbtxt"), config.replaceAll("TYPE_INT64", "TYPE_STRING"));
  writeFileSync(join(base, "texts", "behaviour.yaml"), "behaviour: identity");
  const flags = [`--model-repository=${base}`, "--model-control-mode=explicit", "--load-model=same"];
  flags.push("--load-model=texts");
  child = await hostTriton([...flags, `--http-max-input-size=${MOST}`]);
  old = await hostTriton([...flags, "--triton-version=2.51"]);
});
afterAll(async () => {
  await child.stop(0);
  await old.stop(0);
  rmSync(base, { recursive: true, force: true });
});

async function said(
  path: string,
  body: string | Uint8Array | ReadableStream,
  headers: Record<string, string> = {},
  url = child.url,
) {
  const answer = await fetch(`${url}/v2/${path}`, { method: "POST", body, headers });
  const { error } = (await answer.json()) as { error?: string };
  return [answer.status, error ?? ""];
}
const INFER = "models/same/infer";
const wide = (fields: string) => `{${fields}${" ".repeat(2000)}}`;
const tensor = (shape: string, more = '"data":[1]') =>
  `{"inputs":[{"name":"x","shape":[${shape}],"datatype":"INT64",${more}}]}`;
const tooMuchJson = (bytes: number) =>
  `request JSON size of ${bytes} bytes exceeds the maximum allowed input size of ${MOST} bytes. ${ADVICE}`;

test("JSON above the limit is refused on every route without an effect", async () => {
  const body = wide("");
  const paths = ["repository/index", "repository/models/same/load", "repository/models/same/unload"];
  paths.push("trace/setting", "logging", INFER, "models/same/generate", "models/same/generate_stream");
  for (const path of paths) expect([path, ...(await said(path, body))]).toEqual([path, 400, tooMuchJson(body.length)]);
  const part = (text: string) => new Blob([text]).stream();
  expect(await said("logging", part(body))).toEqual([400, tooMuchJson(body.length)]);
  expect(await said(INFER, part(body))).toEqual([400, tooMuchJson(body.length)]);
  const config = JSON.stringify({ parameters: { config: wide("") } });
  expect(await said("repository/models/other/load", config)).toEqual([400, tooMuchJson(config.length)]);
  expect((await fetch(`${child.url}/v2/models/same/ready`)).status).toBe(200);
});

test("JSON before binary tensors counts, the tensors do not", async () => {
  const count = 500;
  const head = tensor(`${count}`, `"parameters":{"binary_data_size":${count * 8}}`);
  const body = Buffer.concat([Buffer.from(head), Buffer.alloc(count * 8)]);
  const headers = { "Inference-Header-Content-Length": `${head.length}` };
  expect(await said(INFER, body, headers)).toEqual([200, ""]);
  const long = wide("");
  const more = { "Inference-Header-Content-Length": `${long.length}` };
  expect(await said(INFER, `${long}....`, more)).toEqual([400, tooMuchJson(long.length)]);
});

test("raw input and decompressed bodies", async () => {
  const zeros = Buffer.alloc(8000);
  const raw = { "Inference-Header-Content-Length": "0" };
  const tooRaw = `Raw input has a byte_size (8000 bytes) that exceeds the maximum allowed value of ${MOST} bytes. ${ADVICE}`;
  expect(await said(INFER, zeros, raw)).toEqual([400, tooRaw]);
  const unpacked = `Decompressed data size exceeds the maximum allowed value of ${MOST} bytes. ${ADVICE}`;
  for (const [encoding, pack] of [["gzip", gzipSync] as const, ["deflate", deflateSync] as const])
    for (const data of [zeros, Buffer.alloc(8_000_000)]) {
      const headers = { ...raw, "Content-Encoding": encoding };
      expect(await said(INFER, pack(data), headers)).toEqual([400, unpacked]);
    }
});

test("tensors in JSON, and those that generate makes", async () => {
  const json = (bytes: number | bigint) =>
    `JSON input 'x' has a byte_size (${bytes} bytes) that exceeds the maximum allowed value of ${MOST} bytes. ${ADVICE}`;
  const most = "9223372036854775807";
  const cases: Record<string, string> = {
    "126": json(1008),
    "1000000,1000000": json(8n * 10n ** 12n),
    "4611686018427387904": `byte size overflow for input 'x': element count (4611686018427387904) * data type size (8) exceeds maximum allowed size (${most})`,
    "8589934592,8589934592": `invalid shape for input 'x': shape [8589934592,8589934592] causes total element count to exceed maximum size of ${most}`,
    "9223372036854775808":
      "invalid shape for input 'x': shape [-9223372036854775808] contains one or more invalid dimensions",
  };
  for (const [shape, message] of Object.entries(cases))
    expect([shape, ...(await said(INFER, tensor(shape)))]).toEqual([shape, 400, message]);
  const texts = (count: number) =>
    `{"inputs":[{"name":"x","shape":[${count}],"datatype":"BYTES","data":[${new Array(count).fill('""').join(",")}]}]}`;
  expect(await said("models/texts/infer", texts(251))).toEqual([400, json(1004)]);
  expect((await said("models/texts/infer", texts(250)))[0]).toBe(200);
  const list = Array.from({ length: 126 }, () => 1).join(",");
  const grown = `request size of 0 bytes with input 'x' of size 1008 bytes exceeds the maximum allowed input size of ${MOST}. ${ADVICE}`;
  expect(await said("models/same/generate", `{"x":[${list}]}`)).toEqual([400, grown]);
  expect((await said("models/same/generate", `{"x":[${list.slice(2)}]}`))[0]).toBe(200);
});

test("an Inference-Header-Content-Length that is not a 32-bit number", async () => {
  const of = async (length: string) => (await said(INFER, "{}", { "Inference-Header-Content-Length": length }))[1];
  expect(await of("99999999999")).toBe(
    "Unable to parse Inference-Header-Content-Length, value is out of range [ -2147483648, 2147483647 ], got: 99999999999",
  );
  expect(await of("3")).toBe("inference header size should be in range (0, 2), got: 3");
});

test("2.51 has no such limit and never mentions the option", async () => {
  expect((await said("repository/index", wide(""), {}, old.url))[0]).toBe(200);
  const [status, error] = await said(INFER, tensor("1000000,1000000"), {}, old.url);
  expect([status, String(error).includes("--http-max-input-size")]).toEqual([400, false]);
});
