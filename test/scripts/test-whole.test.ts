/** Tests that the whole of a test names the programs that it needs and does not find. */
import { expect, test } from "bun:test";
import { SIZED } from "../../scripts/test-sizes.ts";

const root = new URL("../../", import.meta.url).pathname;

/** Runs the whole of `test image` where no program is on the path. */
async function image(...words: readonly string[]) {
  const child = Bun.spawn([process.execPath, "scripts/test.ts", "image", "--no-save", ...words], {
    cwd: root,
    env: { ...process.env, PATH: "" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return { code: await child.exited, lines: `${out}${err}`.trimEnd().split("\n") };
}
const line = ([tool, debian]: readonly [string, string]) =>
  `${tool} is missing; install it (on Debian: apt-get install ${debian}), or leave it out with --without-${tool}`;

test("each missing program fails the run, unless it is left out", async () => {
  const tools = Object.entries(SIZED.image!.packages!);
  expect(tools.length).toBeGreaterThan(2);
  expect(await image()).toEqual({ code: 1, lines: [...tools.map(line), `0 passed, ${tools.length} failed`] });
  const [first, ...others] = tools;
  expect(await image(`--without-${first![0]}`)).toEqual({
    code: 1,
    lines: [...others.map(line), `0 passed, ${others.length} failed`],
  });
});

test("a program that the test does not use cannot be left out", async () => {
  const { code, lines } = await image("--without-docker");
  expect(code).toBe(2);
  expect(lines).toEqual([expect.stringContaining("--without-buildah, --without-mmdebstrap")]);
});
