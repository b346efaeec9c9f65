/** Which behaviours answer each request once? Echo, sums, identity, sleep, failure, a call of another model. */
import { HTTP_STATUS, type StatusCode } from "../model-config/status.ts";
import {
  bytesOf,
  countedTexts,
  type Datatype,
  LENGTH_BYTES,
  type Numbers,
  newNumbers,
  noteTexts,
  type Tensor,
} from "../tensors/datatypes.ts";
import { type Behaviour, type ModelHost, type ModelRequest, type ModelResponse, PythonError } from "./behaviour.ts";
import { drawnOutputs } from "./drawn.ts";
import type { BehaviourOptions } from "./options.ts";
import { elementsIn, firstNumber, firstText, numbersIn, outputs, textsIn, textTensor } from "./values.ts";

/** One nap for the whole batch: the longest that is asked for. */
async function nap(requests: readonly ModelRequest[], host: ModelHost): Promise<void> {
  const ms = Math.max(...requests.map((request) => Math.max(0, ...numbersIn(request, "sleep_ms"))));
  if (requests.some((request) => firstNumber(request, "sleep_ms", 0) < 0) && ms === 0)
    throw new PythonError("ValueError", "sleep length must be non-negative");
  if (ms > 0) await host.sleep(ms);
}

/** Gives no promise where nobody naps: then nothing waits for a turn. */
function afterNap<T>(requests: readonly ModelRequest[], host: ModelHost, act: () => T): T | Promise<T> {
  return requests.some(({ inputs }) => inputs.has("sleep_ms")) ? nap(requests, host).then(act) : act();
}

/**
 * Answers `text_input` in capitals as `text_output`, after `sleep_ms`. The input `mode` changes that: `raise`, `error`,
 * `error:CODE`, `where` (model and version) and `params` (the request's parameters). With `options.kill` there is also
 * `kill`, which ends the model as the crash of a Python model does. Without the option a client could make the server
 * unready.
 */
export function echo({ kill = false }: BehaviourOptions): Behaviour {
  return {
    execute: (requests, host) => afterNap(requests, host, () => requests.map((request) => echoed(request, host, kill))),
  };
}

function echoed(request: ModelRequest, host: ModelHost, mayKill: boolean): ModelResponse {
  const mode = firstText(request, "mode");
  if (mode === "raise") throw new PythonError("RuntimeError", "boom from execute");
  if (mode === "kill" && mayKill) host.die();
  if (mode.startsWith("error")) {
    return {
      error: { message: "soft failure", ...(mode.includes(":") ? { code: codeOf(mode.slice(6).toUpperCase()) } : {}) },
    };
  }
  const input = request.inputs.get("text_input");
  if (input === undefined) throw new PythonError("AttributeError", "'NoneType' object has no attribute 'as_numpy'");
  const said = { where: `${host.name}:${host.version}`, params: request.parameters }[mode];
  if (said === undefined) return outputs({ ...input, name: "text_output", data: capitals(input.data) });
  const made = textsIn(request, "text_input")!.map(() => said);
  return outputs(textTensor("text_output", input.shape, made));
}

const [SMALL_A, SMALL_Z, TO_CAPITAL] = [97, 122, 32];

/** The texts of a BYTES tensor in capitals. Works on the bytes, because texts of megabytes would be copied several times. */
function capitals(data: Uint8Array): Uint8Array {
  const made = Buffer.allocUnsafeSlow(data.length);
  made.set(data);
  const view = new DataView(made.buffer);
  for (let at = 0; at < made.length; ) {
    const from = at + LENGTH_BYTES;
    at = from + view.getUint32(at, true);
    for (let i = from, end = Math.min(at, made.length); i < end; i++) {
      const code = made[i]!;
      if (code >= SMALL_A && code <= SMALL_Z) made[i] = code - TO_CAPITAL;
    }
  }
  const count = countedTexts(data);
  if (count !== undefined) noteTexts(made, count);
  return made;
}

/** As an attribute of `pb_utils.TritonError`. */
function codeOf(name: string): StatusCode {
  if (Object.hasOwn(HTTP_STATUS, name)) return name as StatusCode;
  throw new PythonError(
    "AttributeError",
    `type object 'c_python_backend_utils.TritonError' has no attribute '${name}'`,
  );
}

/** The first output is the sum of the first two inputs, the second their difference; `options.refuse_negative`: of the first. */
export function addSub({ refuse_negative: refuses = false }: BehaviourOptions): Behaviour {
  return {
    execute: (requests, host) =>
      afterNap(requests, host, () => {
        const { input = [], output = [] } = host.config;
        const [first = "", second = ""] = [input[0]?.name, input[1]?.name];
        const [sum = "", difference = ""] = [output[0]?.name, output[1]?.name];
        return requests.map((request) => {
          const { datatype, shape } = request.inputs.get(first)!;
          const left = elementsIn(request, first);
          const right = elementsIn(request, second);
          if (left === null || right === null) throw new PythonError("TypeError", "unsupported operand type(s) for +");
          if (refuses && left.some((value: number | bigint) => value < 0))
            throw new PythonError("ValueError", "negative input");
          const added = combined(datatype, left, right, 1);
          const taken = combined(datatype, left, right, -1);
          return {
            outputs: [
              { name: sum, datatype, shape, data: added },
              { name: difference, datatype, shape, data: taken },
            ],
          };
        });
      }),
  };
}

function combined(datatype: Datatype, left: Numbers, right: Numbers, sign: 1 | -1): Uint8Array {
  const into = newNumbers(datatype as "INT32", left.length) as Int32Array;
  for (let at = 0; at < into.length; at++) into[at] = plus(left[at]!, right[at]!, sign);
  return bytesOf(into);
}

/** Both are numbers or both bigints; what it is too large for wraps around in the array it goes to. */
const plus = (a: number | bigint, b: number | bigint, sign: number) =>
  (typeof a === "bigint" ? a + (sign < 0 ? -(b as bigint) : (b as bigint)) : a + sign * (b as number)) as number;

/** Each input is an output: that of its name with `options.suffix`, or without one that of its place. */
export function identity({ suffix }: BehaviourOptions): Behaviour {
  return {
    execute: (requests, { config }) =>
      requests.map(({ inputs }) => {
        const made = (config.input ?? []).flatMap(({ name }, at): Tensor[] => {
          const tensor = inputs.get(name);
          const to = suffix === undefined ? config.output?.[at]?.name : `${name}${suffix}`;
          return tensor === undefined || to === undefined ? [] : [{ ...tensor, name: to }];
        });
        return { outputs: made };
      }),
  };
}

/** Answers drawn tensors after `options.ms`. */
export function sleep({ ms = 0 }: BehaviourOptions): Behaviour {
  return {
    async execute(requests, host) {
      await host.compute(ms);
      return requests.map((request) => drawnOutputs(request, host));
    },
  };
}

/** Raises `options.message` as an `options.error`, in `options.at`: initialize or execute. */
export function fail({ at = "execute", error = "RuntimeError", message = "failed" }: BehaviourOptions): Behaviour {
  const raise = () => {
    throw new PythonError(error, message);
  };
  return at === "initialize" ? { initialize: raise, execute: () => null } : { execute: raise };
}

/** Asks `options.model` with the same inputs, and answers what it does; an error of it is an error of this. */
export function call({ model = "" }: BehaviourOptions): Behaviour {
  return {
    execute: (requests, host) =>
      Promise.all(
        requests.map(async ({ inputs }) => {
          const answer = await host.infer(model, [...inputs.values()]);
          return "error" in answer ? { error: { message: answer.error.message } } : answer;
        }),
      ),
  };
}
