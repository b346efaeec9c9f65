/** Tests which flags the command of a front end gets, and which options the engine gets from it. */
import { expect, test } from "bun:test";
import { flagsIn, frontCommand } from "../../../src/cli/front/front-command.ts";

const MODEL = new URL("../../conformance/model", import.meta.url).pathname;
const complete = (command: string, engine = "", http: number | null = null) => {
  const made = frontCommand(command.split(" "), flagsIn(engine.split(" ")), { rpc: 20_001, http });
  if ("error" in made) throw new Error(made.error);
  return { ...made, command: made.command.join(" ") };
};
const foreign = "--data-parallel-size-local 0 --data-parallel-address 127.0.0.1 --data-parallel-rpc-port 20001";

test("the flags of a foreign engine are added, and the engine gets their values", () => {
  expect(complete("vllm-rs serve some/model --port 8001")).toEqual({
    command: `vllm-rs serve some/model --port 8001 ${foreign}`,
    url: "http://127.0.0.1:8001",
    engine: {
      "data-parallel-rpc-port": "20001",
      "data-parallel-address": "127.0.0.1",
      "served-model-name": "some/model",
    },
  });
});

test("a test gets a free HTTP port, and a flag that is there stays", () => {
  expect(complete("vllm-rs serve m", "", 20_002).command).toBe(
    `vllm-rs serve m ${foreign} --host 127.0.0.1 --port 20002`,
  );
  const own =
    "vllm serve m --data_parallel_size_local=0 -dpa 10.0.0.1 --data-parallel-rpc-port 9000 --host ::1 --port=1";
  expect(complete(own, "", 20_002)).toMatchObject({
    command: own,
    url: "http://[::1]:1",
    engine: { "data-parallel-rpc-port": "9000", "data-parallel-address": "10.0.0.1" },
  });
});

test("the engine takes model, name, ranks and length from the front end, unless it has options of its own", () => {
  const command = `python -m vllm.entrypoints.openai.api_server --model ${MODEL} --served-model-name golden --max-model-len 1k --data-parallel-size 2`;
  const { engine } = complete(command, "--max-model-len 512 --data-parallel-rpc-port 7000");
  expect(engine).toEqual({
    "data-parallel-address": "127.0.0.1",
    "data-parallel-size": "2",
    "served-model-name": "golden",
    tokenizer: MODEL,
  });
  expect(complete(command, "--data-parallel-rpc-port 7000").command).toContain("--data-parallel-rpc-port 7000");
});

test.each([
  ["vllm serve m -dpl 2", "", /size-local 2: must be 0 or left out after --/],
  ["vllm serve m --data-parallel-rpc-port 1", "--data-parallel-rpc-port 2", /rpc-port: is 2 before -- and 1 after it/],
])("%s with %s is refused", (command, engine, message) => {
  expect(() => complete(command, engine)).toThrow(message);
});

test.each([
  ["vllm serve m --host 0.0.0.0", "http://127.0.0.1:8000"],
  ["vllm serve m --host box --ssl-certfile c --port 443", "https://box:443"],
])("%s is reached at %s", (command, url) => {
  expect(complete(command).url).toBe(url);
});
