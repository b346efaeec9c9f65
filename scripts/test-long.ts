/**
 * Does a server stand whatever it is sent? Fuzzing of raw bytes and of our OpenAPI document, as long as wanted:
 * `--seed N`, `--inputs N` (spoiled requests, 200000), `--seconds N` (at most, of each part, 1200). The last line is
 * "N passed, N failed".
 */
const root = new URL("../", import.meta.url).pathname;
const NAMES = ["seed", "inputs", "seconds"];

const env: Record<string, string | undefined> = { ...process.env };
const given = process.argv.slice(2);
for (let at = 0; at < given.length; at += 2) {
  const [name, value = ""] = [given[at]!.replace(/^--/, ""), given[at + 1]];
  if (!NAMES.includes(name) || !/^\d+$/.test(value)) {
    console.error(`test:long: ${given[at]} ${value}: --seed N, --inputs N and --seconds N are taken, N a whole number`);
    process.exit(2);
  }
  env[`UNDERSTUDY_LONG_${name.toUpperCase()}`] = value;
}
const child = Bun.spawn([process.execPath, "scripts/test.ts", "--only-tests", "test/long"], {
  cwd: root,
  env,
  stdout: "inherit",
  stderr: "inherit",
});
process.exit(await child.exited);
