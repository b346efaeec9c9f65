/**
 * Built-in behaviours that answer each request once: echo, add and subtract, identity, sleep, failure, and a call of another
 * model.
 */
import { HTTP_STATUS, type StatusCode } from "../model-config/status.ts";
import {
  countedTexts,
  type Datatype,
  filledBytes,
  LENGTH_BYTES,
  lengthAt,
  type Numbers,
  noteTexts,
  type Tensor,
} from "../tensors/datatypes.ts";
import { type Behaviour, type ModelHost, type ModelRequest, type ModelResponse, PythonError } from "./behaviour.ts";
import { drawnOutputs } from "./drawn.ts";
import type { BehaviourOptions } from "./options.ts";
import { elementsIn, firstNumber, firstText, numbersIn, outputs, textsIn, textTensor } from "./values.ts";

/** Sleeps once for the whole batch: the longest `sleep_ms` of its requests. */
async function sleepAsAsked(requests: readonly ModelRequest[], host: ModelHost): Promise<void> {
  const ms = Math.max(...requests.map((request) => Math.max(0, ...numbersIn(request, "sleep_ms"))));
  if (requests.some((request) => firstNumber(request, "sleep_ms", 0) < 0) && ms === 0)
    throw new PythonError("ValueError", "sleep length must be non-negative");
  if (ms > 0) await host.sleep(ms);
}

/**
 * Calls `act` after the sleep. Returns no promise if no request asks for one, so that the answer needs no extra turn of the
 * event loop.
 */
function afterSleep<T>(requests: readonly ModelRequest[], host: ModelHost, act: () => T): T | Promise<T> {
  return requests.some(({ inputs }) => inputs.has("sleep_ms")) ? sleepAsAsked(requests, host).then(act) : act();
}

/**
 * Answers `text_input` in capitals as `text_output`, after `sleep_ms`. The input `mode` changes that: `raise`, `error`,
 * `error:CODE`, `where` (model and version) and `params` (the request's parameters). With `options.kill`, `mode: kill` crashes
 * the model like a Python model. Off by default, because any client could make the server unready.
 */
export function echo({ kill = false }: BehaviourOptions): Behaviour {
  return {
    execute: (requests, host) =>
      afterSleep(requests, host, () => requests.map((request) => echoed(request, host, kill))),
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
  const { datatype, shape, data } = input;
  if (mode !== "where" && mode !== "params")
    return outputs({ name: "text_output", datatype, shape, data: capitals(data) });
  const reply = mode === "where" ? `${host.name}:${host.version}` : request.parameters;
  const made = textsIn(request, "text_input")!.map(() => reply);
  return outputs(textTensor("text_output", shape, made));
}

const [SMALL_A, SMALL_Z, TO_CAPITAL] = [97, 122, 32];

/**
 * Returns the strings of a BYTES tensor in capitals. Works on the bytes, because strings of megabytes would be copied several
 * times.
 */
function capitals(data: Uint8Array): Uint8Array {
  const made = Buffer.allocUnsafeSlow(data.length);
  made.set(data);
  for (let at = 0; at < made.length; ) {
    const from = at + LENGTH_BYTES;
    at = from + lengthAt(made, at);
    for (let i = from, end = Math.min(at, made.length); i < end; i++) {
      const code = made[i]!;
      if (code >= SMALL_A && code <= SMALL_Z) made[i] = code - TO_CAPITAL;
    }
  }
  const count = countedTexts(data);
  if (count !== undefined) noteTexts(made, count);
  return made;
}

/** Looks up an error code like an attribute of `pb_utils.TritonError`. */
function codeOf(name: string): StatusCode {
  if (Object.hasOwn(HTTP_STATUS, name)) return name as StatusCode;
  throw new PythonError(
    "AttributeError",
    `type object 'c_python_backend_utils.TritonError' has no attribute '${name}'`,
  );
}

/**
 * Returns the sum and the difference of the first two inputs as the first two outputs. `refuse_negative`: raises an error if
 * the first input has a negative element.
 */
export function addSub({ refuse_negative: refuses = false }: BehaviourOptions): Behaviour {
  return {
    execute: (requests, host) =>
      afterSleep(requests, host, () => {
        const { input = [], output = [] } = host.config;
        const [{ name: first } = NO_NAME, { name: second } = NO_NAME] = input;
        const [{ name: sum } = NO_NAME, { name: difference } = NO_NAME] = output;
        return requests.map((request) => {
          const { datatype, shape } = request.inputs.get(first)!;
          const left = elementsIn(request, first);
          const right = elementsIn(request, second);
          if (left === null || right === null) throw new PythonError("TypeError", "unsupported operand type(s) for +");
          if (refuses && left.some((value: number | bigint) => value < 0))
            throw new PythonError("ValueError", "negative input");
          const added = combined(datatype, left, right, 1);
          const subtracted = combined(datatype, left, right, -1);
          return {
            outputs: [
              { name: sum, datatype, shape, data: added },
              { name: difference, datatype, shape, data: subtracted },
            ],
          };
        });
      }),
  };
}

const NO_NAME = { name: "" };

function combined(datatype: Datatype, left: Numbers, right: Numbers, sign: 1 | -1): Uint8Array {
  const { length } = left;
  return filledBytes(datatype as "INT32", length, (into) => {
    for (let at = 0; at < length; at++) (into as Int32Array)[at] = plus(left[at]!, right[at]!, sign);
  });
}

/** Adds or subtracts two numbers or two bigints. Typed arrays wrap results that are too large. */
const plus = (a: number | bigint, b: number | bigint, sign: number) =>
  (typeof a === "bigint" ? a + (sign < 0 ? -(b as bigint) : (b as bigint)) : a + sign * (b as number)) as number;

/**
 * Copies each input to an output: the output named input plus `options.suffix`, or without a suffix the output at the same
 * position.
 */
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

/** Answers random tensors after `options.ms` milliseconds of computation. */
export function sleep({ ms = 0 }: BehaviourOptions): Behaviour {
  return {
    async execute(requests, host) {
      await host.compute(ms);
      return requests.map((request) => drawnOutputs(request, host));
    },
  };
}

/** Raises an exception of type `options.error` with `options.message`, in `initialize` or `execute` (`options.at`). */
export function fail({ at = "execute", error = "RuntimeError", message = "failed" }: BehaviourOptions): Behaviour {
  const raise = () => {
    throw new PythonError(error, message);
  };
  return at === "initialize" ? { initialize: raise, execute: () => null } : { execute: raise };
}

/** Calls `options.model` with the same inputs and returns its response or error. */
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
