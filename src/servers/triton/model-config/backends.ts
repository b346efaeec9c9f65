/** Which backends has Triton, and what follows from each? `model_config_utils.cc` (2026), and the list of its repositories. */

export interface BackendFacts {
  /** Goes with the backend where a configuration names none; "" for most. */
  readonly platform: string;
  /** What a model's file is called; "" where it has none. */
  readonly file: string;
  /** Instances where nothing is said, on a processor. */
  readonly instances: number;
  /** What a model gives beside the outputs that it was asked for is left out; with other backends the core refuses it. */
  readonly prunes: boolean;
}

const plain: BackendFacts = { platform: "", file: "", instances: 1, prunes: false };

export const BACKENDS: Readonly<Record<string, BackendFacts>> = {
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

/** The backend that a platform means; undefined for those that mean none. */
export const backendOfPlatform = (platform: string): string | undefined => PLATFORMS[platform];

/** What a file in a version's folder says about the backend. */
export const backendOfFile = (file: string): string | undefined =>
  Object.entries(BACKENDS).find(([, facts]) => facts.file !== "" && facts.file === file)?.[0];
