/**
 * Answers with random tensors of the declared shape and type, for models of which only the configuration is known. The compute
 * time depends on the batch: parameter `understudy_us`, for example `base=2000,per_item=300,first=150000`; default 1 ms.
 */
import type { ModelConfig } from "../model-config/model-config.ts";
import { maxBatchSize } from "../model-config/model-config.ts";
import { modelShape } from "../model-config/reshape.ts";
import { datatypeOf, ELEMENT_BYTES, elementCount, filledBytes, packTexts, type Tensor } from "../tensors/datatypes.ts";
import type { Behaviour, ModelHost, ModelRequest, ModelResponse } from "./behaviour.ts";

const DEFAULT_US = 1000;
/** Size of a variable dimension, unless the next step of an ensemble requires another size. */
const ANY_SIZE = 1;
/** Estimated memory of a string before it is packed. */
const TEXT_BYTES = 64;
/** Largest size of one output in bytes. */
const DRAWN_BYTES_MOST = 64 * 2 ** 20;

export interface ComputeTime {
  readonly baseUs: number;
  readonly perItemUs: number;
  /** Extra time of the first batch on each instance. A warm-up request absorbs it before clients connect. */
  readonly firstUs: number;
}

/** Parses the parameter. Returns null if it is malformed. */
export function computeTime({ parameters }: ModelConfig): ComputeTime | null {
  const text = parameters?.understudy_us?.string_value;
  if (text === undefined) return { baseUs: DEFAULT_US, perItemUs: 0, firstUs: 0 };
  const [, base, item = "0", first = "0"] =
    /^base=(\d+(?:\.\d+)?)(?:,per_item=(\d+(?:\.\d+)?))?(?:,first=(\d+(?:\.\d+)?))?$/.exec(text.replaceAll(" ", "")) ??
    [];
  return base === undefined ? null : { baseUs: Number(base), perItemUs: Number(item), firstUs: Number(first) };
}

/** Describes the compute time for the log. */
export const computeTimeText = ({ baseUs, perItemUs, firstUs }: ComputeTime): string =>
  `${baseUs} us and ${perItemUs} us per item${firstUs > 0 ? `, ${firstUs} us more at first` : ""}`;

export function drawnBehaviour(time: ComputeTime): Behaviour {
  const warm = new WeakSet<ModelHost>();
  return {
    async execute(requests, host) {
      const items = requests.reduce((all, request) => all + batchOf(request, host.config), 0);
      const firstUs = warm.has(host) ? 0 : time.firstUs;
      warm.add(host);
      await host.compute((time.baseUs + items * time.perItemUs + firstUs) / 1000);
      const made = requests.map((request) => drawnOutputs(request, host));
      if (!host.config.model_transaction_policy?.decoupled) return made;
      for (const [at, request] of requests.entries()) request.send(made[at]!, true);
      return null;
    },
  };
}

const batchOf = ({ inputs }: ModelRequest, config: ModelConfig): number =>
  maxBatchSize(config) === 0 ? 1 : Math.max(1, ...[...inputs.values()].map(({ shape }) => shape[0] ?? 1));

export function drawnOutputs(request: ModelRequest, host: ModelHost): ModelResponse {
  const { config } = host;
  const batch = maxBatchSize(config) === 0 ? [] : [batchOf(request, config)];
  const outputs = (config.output ?? []).map((output): Tensor => {
    const { name, data_type: type, dims } = output;
    const next = host.shapeFor(name);
    const fits = next?.length === dims.length ? next : [];
    const sizes = dims.map((dim, at) => (dim === -1 ? Math.max(ANY_SIZE, fits[at] ?? 0) : dim));
    const shape = [...batch, ...modelShape(sizes, output, 0)];
    const datatype = datatypeOf(type);
    const count = elementCount(shape);
    if (count * (datatype === "BYTES" ? TEXT_BYTES : ELEMENT_BYTES[datatype]) > DRAWN_BYTES_MOST)
      throw new Error(`output '${name}' of shape [${shape}] would be drawn: at most ${DRAWN_BYTES_MOST} bytes are`);
    if (datatype === "BYTES") {
      const texts = Array.from({ length: count }, () => `drawn ${Math.floor(host.random() * 1e6)}`);
      return { name, datatype, shape, data: packTexts(texts) };
    }
    const real = datatype === "FP32" || datatype === "FP64";
    const data = filledBytes(datatype, count, (into) => {
      for (let i = 0; i < count; i++) {
        const value = host.random();
        const whole = datatype === "BOOL" ? Math.round(value) : Math.floor(value * 100);
        into[i] = real ? value : typeof into[0] === "bigint" ? BigInt(whole) : whole;
      }
    });
    return { name, datatype, shape, data };
  });
  return { outputs };
}
