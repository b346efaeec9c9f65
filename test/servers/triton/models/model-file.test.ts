/** Tests that files of models are read only if they are regular files of at most the expected size. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { wrongAdapter } from "../../../../src/servers/triton/backends/vllm-adapters.ts";
import { behaviourOf } from "../../../../src/servers/triton/behaviours/table.ts";
import { ImplicitStates } from "../../../../src/servers/triton/inference/implicit-state.ts";
import { invalidArg } from "../../../../src/servers/triton/model-config/status.ts";
import { modelFile, modelText } from "../../../../src/servers/triton/models/model-file.ts";

const folder = mkdtempSync(join(tmpdir(), "triton-model-file-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const states = join(folder, "initial_state");
mkdirSync(states);
const path = (name: string) => join(states, name);
writeFileSync(path("four"), "1234");
writeFileSync(path("large"), "");
truncateSync(path("large"), 65 * 2 ** 20);
symlinkSync("/dev/zero", path("device"));
symlinkSync("nothing", path("broken"));
mkdirSync(path("folder"));
// Reading a pipe without a writer would block the process.
Bun.spawnSync(["mkfifo", path("pipe")]);

const OTHERS = ["device", "broken", "folder", "pipe", "absent", "four/below"];

test("a regular file is read up to its limit; anything else counts as missing", () => {
  expect(modelFile(path("four"), 4).toString()).toBe("1234");
  expect(() => modelFile(path("four"), 3)).toThrow(`${path("four")} has 4 bytes: a stand-in takes 3`);
  for (const name of OTHERS) {
    expect(() => modelFile(path(name), 4)).toThrow(`failed to open text file for read ${path(name)}: No such file`);
    expect(() => modelFile(path(name), 4, (file) => invalidArg(`no ${file}`))).toThrow(`no ${path(name)}`);
  }
});

test("an initial state is not read from a file that is too large or not a regular file", () => {
  const stateFrom = (file: string) => {
    const initial = [{ data_type: "TYPE_INT32", dims: [1], data_file: file }];
    const state = [
      { input_name: "IN", output_name: "OUT", data_type: "TYPE_INT32", dims: [1], initial_state: initial },
    ];
    return new ImplicitStates({ name: "m", version_policy: {}, sequence_batching: { state } }, folder);
  };
  expect(() => stateFrom("four")).not.toThrow();
  expect(() => stateFrom("large")).toThrow(`${path("large")} has 68157440 bytes: a stand-in takes 67108864`);
  for (const name of ["device", "folder", "pipe", "absent"])
    expect(() => stateFrom(name)).toThrow(`failed to open initial state file ${path(name)}`);
});

test("a file of a configuration is read up to 16 MiB, and never a pipe or a device", async () => {
  expect(modelText(path("four"))).toBe("1234");
  expect(() => modelText(path("large"))).toThrow(`${path("large")} has 68157440 bytes: a stand-in takes 16777216`);
  for (const name of ["pipe", "device"]) expect(() => modelText(path(name))).toThrow("failed to open text file");
  const model = join(folder, "model");
  mkdirSync(model);
  for (const name of ["behaviour.yaml", "model.json"]) Bun.spawnSync(["mkfifo", join(model, name)]);
  await expect(behaviourOf(model, { name: "m" } as never)).rejects.toThrow("behaviour.yaml: failed to open text file");
  expect(() => wrongAdapter("a", { folder: model } as never)).toThrow("failed to open text file");
});
