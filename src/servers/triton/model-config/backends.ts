/**
 * Lists Triton's backends with the defaults that each implies. Source: `model_config_utils.cc` (2026), and the list of Triton's
 * repositories.
 */

/** The facts of most backends. */
const plain = {
  /** Platform set if a configuration names none, or "" for most backends. */
  platform: "",
  /** Default name of the model's file, or "" if the backend needs no file. */
  file: "",
  /** Default count of a CPU instance group. */
  instances: 1,
  /** True if the backend drops outputs that the request did not ask for. With other backends the core rejects such outputs. */
  prunes: false,
};

export const BACKENDS: Readonly<Record<string, typeof plain>> = {
  tensorrt: { ...plain, platform: "tensorrt_plan", file: "model.plan" },
  onnxruntime: { ...plain, platform: "onnxruntime_onnx", file: "model.onnx", instances: 2 },
  pytorch: { ...plain, platform: "pytorch_libtorch", file: "model.pt" },
  tensorflow: { ...plain, platform: "tensorflow_savedmodel", file: "model.savedmodel", instances: 2 },
  openvino: { ...plain, file: "model.xml" },
  python: { ...plain, file: "model.py", prunes: true },
  vllm: { ...plain, file: "model.json", prunes: true },
  tensorrtllm: { ...plain, prunes: true },
  dali: plain,
  fil: plain,
  identity: plain,
  repeat: plain,
  square: plain,
  sequence: plain,
  mlflow: plain,
  hps: plain,
};

const PLATFORMS: Readonly<Record<string, string>> = {
  tensorrt_plan: "tensorrt",
  onnxruntime_onnx: "onnxruntime",
  pytorch_libtorch: "pytorch",
  tensorflow_savedmodel: "tensorflow",
  tensorflow_graphdef: "tensorflow",
};

/** Returns the backend of a platform, or undefined for an unknown platform. */
export const backendOfPlatform = (platform: string): string | undefined => PLATFORMS[platform];

/** Returns the backend whose default model file has this name, or undefined. */
export const backendOfFile = (file: string): string | undefined =>
  Object.entries(BACKENDS).find(([, facts]) => facts.file !== "" && facts.file === file)?.[0];
