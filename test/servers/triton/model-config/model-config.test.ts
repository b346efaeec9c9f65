/** Tests that a `config.pbtxt` is read, completed and refused like by Triton. */
import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { atOnce } from "../../../../src/base/pieces.ts";
import { configFromJson, configTexts } from "../../../../src/servers/triton/model-config/config-json.ts";
import { normalized } from "../../../../src/servers/triton/model-config/normalize.ts";
import { type ConfigMessage, pbtxtInPieces } from "../../../../src/servers/triton/model-config/pbtxt.ts";
import { ROOT } from "../../../../src/servers/triton/model-config/schema.ts";
import { wrongConfig } from "../../../../src/servers/triton/model-config/validate.ts";
import { wrongGroups, wrongTensors } from "../../../../src/servers/triton/model-config/validate-tensors.ts";
import { Repository } from "../../../../src/servers/triton/models/repository.ts";

const parse = (text: string, later = true) => atOnce(pbtxtInPieces(text, ROOT, later));
const model = (text: string, folder = "m") => atOnce(normalized(parse(text), folder, []));
const wrong = (text: string) => {
  const config = model(text);
  return atOnce(wrongConfig(config)) ?? atOnce(wrongGroups(config)) ?? atOnce(wrongTensors(config));
};
const configJson = (config: ConfigMessage) => JSON.parse([...configTexts(config, true)].join(""));
const fromJson = (json: unknown) => atOnce(configFromJson(json, true));

test.each([
  ['name: "m"\nfoo: 1', '2:1: Message type "inference.ModelConfig" has no field named "foo".'],
  ["max_batch_size: x", "1:17: Expected integer, got: x"],
  ["max_batch_size: 3000000000", "1:17: Integer out of range (3000000000)"],
  ["input { name: 5 }", "1:15: Expected string, got: 5"],
  ['input [ { name: "a" data_type: TYPE_X } ]', '1:32: Unknown enumeration value of "TYPE_X" for field "data_type".'],
  ['name: "a"\n  name: "b"', '2:3: Non-repeated field "name" is specified multiple times.'],
  ["input {", "1:8: Expected identifier, got: "],
  ['input [ { name: "a" dims: [ 1, 2', '1:33: Expected ",", found "".'],
  ["input { dims: [ 1 2 ] }", '1:19: Expected ",", found "2".'],
  ['platform "x"', '1:10: Expected ":", found ""x"".'],
  ['name: "a', "1:7: String literals cannot cross line boundaries."],
  [
    "model_transaction_policy { decoupled: maybe }",
    '1:39: Invalid value for boolean field "decoupled". Value: "maybe".',
  ],
  [
    "version_policy { all {} latest {} }",
    '1:25: Field "latest" is specified along with field "all", another member of oneof "policy_choice".',
  ],
])("refused with line and column: %s", (text, why) => {
  expect(() => parse(text)).toThrow(why);
});

test("a field that 2.51 does not know is refused for 2.51", () => {
  const text = 'model_metrics { metric_control: [ { metric_identifier: { family: "f" } } ] }';
  expect(() => parse(text, false)).toThrow(
    '1:1: Message type "inference.ModelConfig" has no field named "model_metrics".',
  );
  expect(parse(text)).toEqual({ model_metrics: { metric_control: [{ metric_identifier: { family: "f" } }] } });
});

test("lists and maps in all their forms, comments, and adjacent strings are read", () => {
  const text = `# a comment
    name: "a" 'b'; backend: "\\x70ython",
    input < name: "x" data_type: TYPE_FP32 dims: [ -1, 3 ] dims: 4 > input [ { name: "y" } ]
    parameters { key: "k" value { string_value: "v" } } parameters: [ { key: "l" value: { string_value: "w" } } ]
    metric_tags [ ]`;
  expect(parse(text)).toEqual({
    name: "ab",
    backend: "python",
    input: [{ name: "x", data_type: "TYPE_FP32", dims: [-1, 3, 4] }, { name: "y" }],
    parameters: { k: { string_value: "v" }, l: { string_value: "w" } },
    metric_tags: {},
  });
});

const TENSORS = 'input { name: "x" data_type: TYPE_INT32 dims: 1 } output { name: "y" data_type: TYPE_INT32 dims: 1 }';

test.each([
  [
    "",
    "Invalid model name: Could not determine backend for model 'm' with no backend in model configuration. Expected model name of the form 'model.<backend_name>'.",
  ],
  ['default_model_filename: "weights"', "unexpected platform type '' for m"],
  ['platform: "nope"', "unexpected platform type 'nope' for m"],
  [
    'backend: "onnxruntime" platform: "tensorrt_plan"',
    "unexpected 'platform' and 'backend' pair, got:tensorrt_plan, onnxruntime",
  ],
  ['backend: "python" max_batch_size: -1', "'max_batch_size' must be non-negative value for m"],
  [
    'backend: "python" max_batch_size: 2 dynamic_batching { preferred_batch_size: 4 }',
    "dynamic batching preferred size must be <= max batch size for m",
  ],
  [
    'backend: "python" dynamic_batching { priority_levels: 2 default_priority_level: 3 }',
    "default priority level must be in range [1, 2] for m",
  ],
  [
    'backend: "python" dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }',
    "Only one priority level is allowed when 'preserve_ordering' is true for m",
  ],
  ['backend: "python" input { data_type: TYPE_INT32 dims: 1 }', "model input must specify 'name' for m"],
  ['backend: "python" input { name: "x" dims: 1 }', "model input 'x' must specify 'data_type' for m"],
  ['backend: "python" output { name: "y" data_type: TYPE_INT32 }', "model output 'y' must specify 'dims' for m"],
  [
    'backend: "python" input { name: "x" data_type: TYPE_INT32 dims: 0 }',
    "model input 'x' dimension must be integer >= 1, or -1 to indicate a variable-size dimension for m",
  ],
  [
    'backend: "python" input { name: "x" data_type: TYPE_INT32 dims: [ 2, 3 ] reshape { shape: 5 } }',
    "model input 'x' has different size for dims and reshape for m",
  ],
  [
    'backend: "python" instance_group { kind: KIND_CPU gpus: [ 0 ] }',
    "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs",
  ],
  [
    'backend: "python" response_cache { enable: true } model_transaction_policy { decoupled: true }',
    "Response Cache does not currently support model m with 'decoupled' transaction policy. Please disable the response cache.",
  ],
  ['platform: "ensemble"', "ensemble scheduling must be set for ensemble m whose platform is ensemble"],
  [
    `platform: "ensemble" ${TENSORS} ensemble_scheduling { step { model_name: "a" input_map { key: "i" value: "z" } output_map { key: "o" value: "y" } } }`,
    "ensemble input 'x' for ensemble m' is not used",
  ],
  [
    `platform: "ensemble" ${TENSORS} ensemble_scheduling { step [
      { model_name: "a" input_map { key: "i" value: "x" } input_map { key: "j" value: "c" } output_map { key: "o" value: "b" } },
      { model_name: "b" input_map { key: "i" value: "b" } output_map { key: "o" value: "c" } output_map { key: "p" value: "y" } } ] }`,
    "output 'y' for ensemble 'm' is not written: at least one of its depending tensors, 'c', is not connected",
  ],
  ...(
    [
      ["{}", "metric control must specify 'metric_identifier'"],
      ["{ metric_identifier {} }", "metric identifier must specify non-empty 'family'"],
      ['{ metric_identifier { family: "f" } }', "metric control must specify 'histogram_options'"],
      [
        '{ metric_identifier { family: "f" } histogram_options {} }',
        "histogram options must specify non-empty 'buckets'",
      ],
    ] as const
  ).map(([control, why]): [string, string] => [`backend: "python" model_metrics { metric_control ${control} }`, why]),
])("wrong in Triton's words: %s", (text, why) => {
  expect(wrong(text)).toBe(why);
});

test("the folder's name determines the backend if nothing else does", () => {
  const { backend, platform, default_model_filename: file } = model("", "some.identity");
  expect([backend, platform, file]).toEqual(["identity", undefined, "model.identity"]);
  expect(atOnce(wrongConfig(model("", "some.identity")))).toBeUndefined();
  expect(atOnce(wrongConfig(model("", "some.onnxruntime")))).toBe(
    "unexpected 'platform' and 'backend' pair, got:, onnxruntime",
  );
  expect(atOnce(wrongConfig(model("", "some.")))).toBe("unexpected platform type '' for some.");
  expect(model('backend: "python"', "some.identity").backend).toBe("python");
});

test("version policy, preferred size, instances, file and pinned memory have Triton's defaults", () => {
  const text = `backend: "onnxruntime" max_batch_size: 4 dynamic_batching {} ${TENSORS}`;
  const config = model(text);
  expect(wrong(text)).toBeUndefined();
  expect(config).toMatchObject({
    name: "m",
    platform: "onnxruntime_onnx",
    default_model_filename: "model.onnx",
    version_policy: { latest: { num_versions: 1 } },
    dynamic_batching: { preferred_batch_size: [4] },
    instance_group: [{ name: "m", kind: "KIND_CPU", count: 2 }],
  });
  expect(model(`${text} instance_group { kind: KIND_GPU }`).instance_group).toMatchObject([{ count: 1, gpus: [0] }]);
});

test("a configuration is unchanged after conversion to JSON and back", () => {
  const config = model(
    `backend: "python" max_batch_size: 4 ${TENSORS} parameters { key: "a" value { string_value: "b" } }`,
  );
  const json = configJson(config);
  expect(configJson(fromJson(json))).toEqual(json);
  expect(() => fromJson({ nope: 1 })).toThrow("nope");
  expect(() => fromJson({ max_batch_size: "x" })).toThrow("max_batch_size");
  for (const wrong of [5, "ab", [{}]])
    expect(() => fromJson({ parameters: wrong })).toThrow("parameters: must be an object");
  expect(fromJson({ maxBatchSize: "4" })).toEqual({ max_batch_size: 4 });
});

test("a repository reads versions by policy, refuses wrong names and models in two folders, and takes files of a load", () => {
  const base = mkdtempSync(join(tmpdir(), "repository-"));
  const place = (path: string, text: string) => {
    mkdirSync(join(base, path, ".."), { recursive: true });
    writeFileSync(join(base, path), text);
  };
  try {
    for (const version of ["1", "2", "10", "07", "x"]) place(`one/a/${version}/model.py`, "");
    place("one/a/config.pbtxt", `backend: "python" ${TENSORS}`);
    place("one/both/1/f", "");
    place("two/both/1/f", "");
    place("one/other/config.pbtxt", 'name: "b" backend: "python"');
    place("one/other/1/f", "");
    place("one/empty/config.pbtxt", 'backend: "python"');
    const repository = new Repository([join(base, "one"), join(base, "two")], true);
    expect(repository.names()).toEqual(["a", "empty", "other"]);
    expect(repository.read("a").versions).toEqual([10]);
    const all = JSON.stringify({ backend: "python", version_policy: { all: {} } });
    expect(repository.read("a", { config: all, files: new Map() }).versions).toEqual([1, 2, 10]);
    const brought = repository.read("new", { config: all, files: new Map([["3/model.py", 0]]) });
    expect(brought.versions).toEqual([3]);
    expect(() => repository.read("both")).toThrow("not unique across all model repositories");
    expect(() => repository.read("other")).toThrow("directory name must equal model name");
    expect(repository.read("empty").versions).toEqual([]);
    expect(() => repository.read("../a")).toThrow("must not contain path traversal characters");
    expect(() => repository.read("a", { config: null, files: new Map([["1/f", 0]]) })).toThrow(
      "Load parameter 'config' must be specified for model file override",
    );
    expect(() => new Repository([join(base, "none")], true).names()).toThrow("failed to open directory");
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
});
