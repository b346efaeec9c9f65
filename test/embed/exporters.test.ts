/** Tests that the documentation's example finds the bug of each broken exporter, and reports no violation of a correct one. */
import { expect, test } from "bun:test";
import { run } from "../packed.ts";
import { figure, sampled, sized } from "../size.ts";
import { BUGS, exporterWith } from "./exporters.ts";

const root = new URL("../../", import.meta.url).pathname;
const check = (url: string, runs: number) =>
  run([process.execPath, "examples/programs/exporter.js", url, String(runs)], root);

test.each(sampled("library", Object.entries(BUGS), 3))(
  "the bug is found with a load of at most three requests: %s",
  async (name, bug) => {
    await using exporter = exporterWith(bug);
    const { code, out, err } = await check(exporter.url, 100);
    expect({ code, out }).toEqual({ code: 1, out: "" });
    const [, load] = /^Counterexample: \[(.*)\]$/m.exec(err)!;
    const requests = (JSON.parse(load!) as object[]).length;
    expect(requests).toBeLessThanOrEqual(3);
    figure(name, `${/(?:G\d\d|APP1)(?=: )/.exec(err)![0]}, ${requests} requests`);
  },
  60_000,
);

test("a correct exporter is never reported, with load and idle phases", async () => {
  const runs = sized("library", { sample: 15, whole: 1000 });
  await using exporter = exporterWith({});
  const { code, out, err } = await check(exporter.url, runs);
  expect({ code, out, err }).toEqual({ code: 0, out: "every law held\n", err: "" });
  figure("runs of the right exporter", runs);
}, 600_000);
