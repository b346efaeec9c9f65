/**
 * Runs the examples for Testcontainers with the command in place of the image: small stand-ins for the libraries start it. The
 * compilers check the examples against these stand-ins; `test services` also checks the one in Python against the real library.
 */
import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { version } from "../../package.json";
import { findToolchain, missingLine, TOOLCHAINS } from "../clients/toolchains.ts";
import { done } from "../packed.ts";
import { sized } from "../size.ts";

const root = new URL("../../", import.meta.url).pathname;
const stands = `${root}test/services/testcontainers`;
const examples = `${root}examples/testcontainers`;
const folder = mkdtempSync(join(tmpdir(), "understudy-containers-"));
afterAll(() => rmSync(folder, { recursive: true }));
const UNDERSTUDY = `${process.execPath} ${root}src/main.ts`;

test("Node's example runs", async () => {
  await done([process.execPath, "node.ts"], examples, { UNDERSTUDY });
}, 30_000);

test("Python's example runs", async () => {
  const env = { UNDERSTUDY, PYTHONDONTWRITEBYTECODE: "1", PYTHONPATH: `${stands}/python` };
  await done(["python3", "-c", "import test_server; test_server.test_models()"], examples, env);
}, 30_000);

const isWhole = sized("services", { sample: false, whole: true });
const java = isWhole ? findToolchain(TOOLCHAINS.java) : null;
const javac = java === null ? null : Bun.which("javac");
if (isWhole && javac === null) console.log(missingLine(TOOLCHAINS.java, ["examples/testcontainers/ServerTest.java"]));

test.skipIf(javac === null)(
  "Java's example is compiled and runs",
  async () => {
    const source = `${examples}/ServerTest.java`;
    await done([javac!, "-Xlint:all", "-Werror", "-d", folder, "-sourcepath", `${stands}/java`, source], folder);
    await done([java!, "-cp", folder, "ServerTest"], folder, { UNDERSTUDY });
  },
  60_000,
);

const mypy = `${root}.venv-services/bin/mypy`;
test.skipIf(!isWhole || !existsSync(mypy))(
  "Python's example has the types of the real library",
  async () => {
    await done([mypy, "--strict", "--cache-dir", folder, `${examples}/test_server.py`], folder);
  },
  120_000,
);

test("the examples name the image of this version", () => {
  for (const name of ["node.ts", "test_server.py", "ServerTest.java"])
    expect(readFileSync(join(examples, name), "utf8")).toContain(`"llm-understudy:${version}"`);
});
