/** Tests that a server keeps a bounded number of requests and bytes, and continues after many or large requests. */
import { beforeAll, expect, test } from "bun:test";
import { createServer } from "../../src/embed/bun.ts";
import { done } from "../packed.ts";
import { sized } from "../size.ts";
// @ts-expect-error a program for Node and Bun alike, without types
import { bounds } from "./bounds.js";

const root = new URL("../../", import.meta.url).pathname;
const { count, megabytes } = sized("library", {
  sample: { count: 1100, megabytes: 3 },
  whole: { count: 10_000, megabytes: 51 },
});
/** True if the server keeps both large bodies. False if it keeps only the newer one. */
const bothFit = 2 * megabytes * 1_000_000 < 64 * 2 ** 20;
const prompt = megabytes * 1_000_000;
const wanted = {
  ...{ kept: 1000, statuses: [200], generationTokens: count, newest: true, after: 0, small: 200 },
  ...{ refused: [400, 400], bodies: [bothFit ? prompt : null, prompt] },
  outcomes: Array(2).fill(["refused", true]),
};

beforeAll(async () => {
  await done([process.execPath, "scripts/build.ts", "--library"], root);
}, 120_000);

test("the number of kept requests and bytes is bounded in Bun", async () => {
  expect(await bounds(createServer, count, megabytes)).toEqual(wanted);
}, 120_000);

test("the number of kept requests and bytes is bounded in Node", async () => {
  const program = `
    import { createServer } from "llm-understudy";
    import { bounds } from ${JSON.stringify(`${root}test/embed/bounds.js`)};
    console.log(JSON.stringify(await bounds(createServer, ${count}, ${megabytes})));`;
  const { out, err } = await done(["node", "--input-type=module", "--eval", program], root);
  expect([JSON.parse(out), err]).toEqual([wanted, ""]);
}, 120_000);
