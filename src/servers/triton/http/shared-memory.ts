/**
 * Implements the paths of shared memory. Source: `HandleSystemSharedMemory` and `HandleCudaSharedMemory` in `http_server.cc`
 * (2026).
 */
import { invalidArg, TritonError } from "../model-config/status.ts";
import { asString, asUnsigned, documentOf, find, member } from "../tensors/access.ts";
import { toBytesText } from "../tensors/datatypes.ts";
import { DISABLED_MEMORY, type SharedMemory } from "../tensors/shared-memory.ts";
import { rapidText } from "../tensors/tensor-json.ts";
import { type HandlerAnswer, type HttpCall, jsonAnswer } from "./call.ts";
import { settingsBody } from "./input-limit.ts";

/** Size of a CUDA memory handle. */
const HANDLE_BYTES = 64;

/** Handles `status`, `register` and `unregister` below `/v2/systemsharedmemory` and `/v2/cudasharedmemory`. */
export const systemMemory = (call: HttpCall): Promise<HandlerAnswer> => handle(call, false);
export const cudaMemory = (call: HttpCall): Promise<HandlerAnswer> => handle(call, true);

async function handle(call: HttpCall, cuda: boolean): Promise<HandlerAnswer> {
  const [region, action] = call.found;
  const { memory, config, server } = call.around;
  if (action === "status") return jsonAnswer(status(memory, region ?? null, cuda));
  if (!config.memory.clientSharedMemory) throw new TritonError("UNSUPPORTED", DISABLED_MEMORY);
  if (action === "unregister") {
    if (!cuda) memory.unregister(region ?? null);
    return jsonAnswer("");
  }
  if (region === undefined)
    throw invalidArg(`'region name' is necessary to register ${cuda ? "cuda" : "system"} shared memory region`);
  const document = documentOf(await settingsBody(call));
  if (cuda) {
    const handle = find(document, "raw_handle");
    if (handle === undefined) throw invalidArg("Shared memory register request has no 'raw_handle' field");
    const encoded = asString(member(handle, "b64"));
    asUnsigned(member(document, "byte_size"));
    asUnsigned(member(document, "device_id"));
    if (Buffer.from(encoded, "base64").length !== HANDLE_BYTES)
      throw invalidArg("'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t");
    throw invalidArg(server.facts.cudaRefusal(region));
  }
  const [key, offset, bytes] = ["key", "offset", "byte_size"].map((name) => find(document, name));
  if (key === undefined) throw invalidArg("Shared memory register request has no 'key' field");
  const name = asString(key);
  const from = offset === undefined ? 0 : Number(asUnsigned(offset));
  if (bytes === undefined) throw invalidArg("Shared memory register request has no 'byte_size' field");
  memory.register(region, name, from, Number(asUnsigned(bytes)));
  return jsonAnswer("");
}

function status(memory: SharedMemory, region: string | null, cuda: boolean): string {
  if (cuda && region !== null)
    throw new TritonError("NOT_FOUND", `Unable to find cuda shared memory region: '${region}'`);
  const texts = (cuda ? [] : memory.named(region)).map(
    ({ name, key, offset, bytes }) =>
      `{"name":${rapidText(toBytesText(name))},"key":${rapidText(toBytesText(key))},"offset":${offset},"byte_size":${bytes}}`,
  );
  return `[${texts.join(",")}]`;
}
