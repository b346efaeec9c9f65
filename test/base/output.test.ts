/** Tests that all ways to print share one writer per descriptor, which keeps the order of the calls. */
import { expect, test } from "bun:test";

const output = JSON.stringify(new URL("../../src/base/output.ts", import.meta.url).pathname);

async function run(program: string): Promise<{ out: string; err: string }> {
  const text = `import { takeOverOutput } from ${output};\ntakeOverOutput("test");\n${program}`;
  const child = Bun.spawn([process.execPath, "-e", text], { stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { out, err };
}

test("lines of the console and text written to the streams keep their order", async () => {
  const { out, err } = await run(`
    console.log("a %s"); process.stdout.write("b\\n"); console.info("c"); console.log("d", 1); console.log("e");
    console.error("x"); process.stderr.write(Buffer.from("y\\n")); console.warn("z %d", 5);`);
  expect(out).toBe("a %s\nb\nc\nd 1\ne\n");
  expect(err).toBe("x\ny\nz 5\n");
});

test("other methods of the console work like Node's", async () => {
  const { out, err } = await run(`
    console.log("before"); console.group("group"); console.log("inside"); console.groupEnd(); console.log("after");
    console.log({ a: 1 }); console.table([{ a: 1 }]); console.assert(false, "asserted"); console.log();`);
  expect(out).toMatch(/^before\ngroup\n {2}inside\nafter\n\{ a: 1 \}\n┌.*┘\n\n$/s);
  expect(err).toBe("Assertion failed: asserted\n");
});

test("process.stdout and process.stderr still behave like streams", async () => {
  const { out } = await run(`
    const { stdout, stderr } = process;
    console.log([stdout.fd, stderr.fd, stdout.isTTY, "write" in stdout, "log" in console].join(" "));
    stdout.on("drain", () => {}).once("mine", (x) => console.log("heard " + x)).emit("mine", 7);
    stdout.write("called back\\n", () => console.log("back"));`);
  expect(out).toBe("1 2 false true true\nheard 7\ncalled back\nback\n");
});

test("text that was not written yet is written when the process exits", async () => {
  const { out } = await run('for (let i = 0; i < 3000; i++) console.log("line " + i); process.exit(0);');
  expect(out.split("\n")).toHaveLength(3001);
});
