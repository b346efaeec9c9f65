/** Compares errors of /infer with those of a real server: invalid compressed bodies, and errors with 64-bit numbers. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import { hostTriton, type TritonHosted } from "./child.ts";

let server: TritonHosted;
beforeAll(async () => {
  const models = new URL("models", import.meta.url).pathname;
  const plain = ["--model-control-mode=explicit", "--load-model=plain", "--load-model=types"];
  server = await hostTriton([`--model-repository=${models}`, ...plain]);
});
afterAll(() => server.stop());

async function post(path: string, body: string | Uint8Array, headers: Record<string, string> = {}) {
  const answer = await fetch(`${server.url}/v2/models/${path}`, { method: "POST", body: Buffer.from(body), headers });
  const text = await answer.text();
  return [answer.status, text.startsWith('{"error"') ? JSON.parse(text).error : JSON.parse(text).outputs[0].data];
}

const BODY = Buffer.from('{"inputs":[{"name":"text_input","shape":[1],"datatype":"BYTES","data":["hi"]}]}');
const JUNK = Buffer.from("junk");
/** The recorded answer of 2.51 to an invalid gzip body, which it treats like an empty body. */
const EMPTY = [
  400,
  "[request id: <id_unknown>] Raw request must only have 1 input (found 1) to be deduced but got 3 inputs in 'plain' model configuration",
];
const zip = gzipSync(BODY);
const named = Buffer.concat([
  zip.subarray(0, 3),
  Buffer.of(8),
  zip.subarray(4, 10),
  Buffer.from("name\0"),
  zip.subarray(10),
]);
const PACKED: Readonly<Record<string, readonly [Uint8Array, readonly unknown[]]>> = {
  "no gzip or zlib at all": [BODY, EMPTY],
  "deflate without zlib's header": [deflateRawSync(BODY), EMPTY],
  "a gzip header alone": [zip.subarray(0, 10), EMPTY],
  "a header of zlib that wants a dictionary": [Buffer.of(0x78, 0x20 + 27, 1, 2, 3), EMPTY],
  gzip: [zip, [200, ["HI"]]],
  "gzip with a name": [named, [200, ["HI"]]],
  zlib: [deflateSync(BODY), [200, ["HI"]]],
  "gzip without its end": [zip.subarray(0, -8), [200, ["HI"]]],
  "gzip with a wrong checksum": [Buffer.concat([zip.subarray(0, -8), Buffer.alloc(8)]), [200, ["HI"]]],
  "gzip and bytes after it": [Buffer.concat([zip, JUNK]), [200, ["HI"]]],
  "two members of gzip, of which the first counts": [Buffer.concat([zip, gzipSync("]")]), [200, ["HI"]]],
  "zlib and bytes after it": [Buffer.concat([deflateSync(BODY), JUNK]), [200, ["HI"]]],
};

for (const [name, [body, expected]] of Object.entries(PACKED)) {
  test(`a compressed body: ${name}`, async () => {
    for (const label of ["gzip", "deflate"])
      expect([label, ...(await post("plain/infer", body, { "content-encoding": label }))]).toEqual([
        label,
        ...expected,
      ]);
    // A thread of the runtime decompresses larger bodies.
    const large = Buffer.concat([body, Buffer.alloc(8192, 32)]);
    if (name.includes("after it"))
      expect(await post("plain/infer", large, { "content-encoding": "gzip" })).toEqual([...expected]);
  });
}

const input = (name: string, datatype: string, more: string) =>
  `{"inputs":[{"name":"${name}","datatype":"${datatype}",${more}}]}`;

test("64-bit numbers in errors are exact", async () => {
  for (const big of ["9007199254740993", "9223372036854775807", "9223372036854775808", "18446744073709551615"]) {
    const signed = BigInt.asIntN(64, BigInt(big));
    const size = (bytes: string) => `"parameters":{"binary_data_size":${bytes}}`;
    expect(await post("plain/infer", input("text_input", "BYTES", `"shape":[1],${size(big)}`))).toEqual([
      400,
      `unexpected size for input 'text_input', expecting ${big} additional bytes for model 'plain'`,
    ]);
    expect(await post("plain/infer", input("text_input", "BYTES", `"shape":[${big}],${size("0")}`))).toEqual([
      400,
      `[request id: <id_unknown>] unexpected shape for input 'text_input' for model 'plain'. Expected [1], got [${signed}]. `,
    ]);
    expect(await post("types/infer", input("INT32", "INT32", `"shape":[${big}],${size("0")}`))).toEqual([
      400,
      `[request id: <id_unknown>] input byte size mismatch for input 'INT32' for model 'types'. Expected ${signed * 4n}, got 0`,
    ]);
  }
  const version = "9007199254740993";
  expect(await post(`plain/versions/${version}/infer`, "{}")).toEqual([
    404,
    `Request for unknown model: 'plain' version ${version} is not found`,
  ]);
});
