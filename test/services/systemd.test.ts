/** Tests the systemd unit and the example of a configuration file that it uses. */
import { afterAll, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serveOptions } from "../../src/cli/options/serve-options.ts";
import { resolveServeConfig } from "../../src/cli/serve/resolve.ts";

const root = new URL("../../", import.meta.url).pathname;
const unit = readFileSync(`${root}deploy/systemd/understudy.service`, "utf8");
const example = readFileSync(`${root}deploy/systemd/understudy.yaml`, "utf8");
const folder = mkdtempSync(join(tmpdir(), "understudy-systemd-"));
afterAll(() => rmSync(folder, { recursive: true }));

const resolve = (yaml: string) => resolveServeConfig(["--config", "f.yaml"], {}, () => yaml);
const settings = [...unit.matchAll(/^([A-Za-z]+)=(.*)$/gm)].map(([, name, value]) => [name!, value!] as const);
const valueOfKey = (name: string) => settings.find(([key]) => key === name)![1];

/** Keys that the example shows as comments, with their values. */
const inactive = [...example.matchAll(/^#([\w-]+: .*)$/gm)].map(([, line]) => line!);

test("the example is accepted as it is and with each further key, and its comments are the help texts", () => {
  const plain = resolve(example);
  expect("config" in plain && plain.notices).toEqual([]);
  expect(inactive.length).toBeGreaterThan(10);
  for (const line of inactive) {
    // Some options need the options that the example shows next to them.
    const needed = inactive.filter(
      (other) => /^(tool-call-parser|retry-after|failure-types):/.test(other) && other !== line,
    );
    expect({ line, ...resolve([example, line, ...needed].join("\n")) }).not.toHaveProperty("error");
  }
  const all = resolve([example, ...inactive].join("\n"));
  expect("config" in all || all).toBe(true);
  const flat = example.replaceAll("\n# ", " ");
  for (const [, name] of example.matchAll(/^#?([a-z][\w-]*): /gm))
    expect(flat).toContain(serveOptions[name as keyof typeof serveOptions].about);
});

test("a spoiled key of the example is refused with its line", () => {
  const wrong = example.replace(/^port: /m, "prot: ");
  expect(resolve(wrong)).toEqual({
    error: expect.stringMatching(/^f\.yaml:\d+: prot: unknown key; did you mean port\?/),
  });
});

test("the unit waits for the port of the example, and stops after its shutdown timeout", () => {
  const { config } = resolve(example) as { config: { listen: { port: number }; shutdownTimeoutS: number } };
  expect(valueOfKey("ExecStartPost")).toContain(`http://127.0.0.1:${config.listen.port} `);
  expect(Number(valueOfKey("TimeoutStopSec"))).toBeGreaterThan(config.shutdownTimeoutS);
  expect(new Set(settings.map(([name]) => name)).size).toBe(settings.length);
  expect(unit.match(/^\[.*\]$/gm)).toEqual(["[Unit]", "[Service]", "[Install]"]);
});

test.skipIf(Bun.which("systemd-analyze") === null)("systemd accepts the unit, and names a spoiled line", () => {
  const program = join(folder, "understudy");
  writeFileSync(program, "#!/bin/sh\n");
  chmodSync(program, 0o755);
  const verify = (text: string) => {
    const path = join(folder, "understudy.service");
    writeFileSync(path, text.replaceAll("/usr/local/bin/understudy", program));
    const { stderr, exitCode } = Bun.spawnSync(["systemd-analyze", "verify", "--man=no", path]);
    return {
      exitCode,
      complaint: stderr
        .toString()
        .split("\n")
        .filter((line) => line.includes("understudy.service")),
    };
  };
  expect(verify(unit)).toEqual({ exitCode: 0, complaint: [] });
  expect(verify(unit.replace("ProtectHome=yes", "ProtectHouse=yes")).complaint.join()).toContain("ProtectHouse");
});
