/**
 * Implements the paths of server, models and repository: metadata, readiness, configuration, statistics, index, load and
 * unload.
 */
import { inTurns, type Pieces } from "../../../base/pieces.ts";
import { modelMetadataOf, serverMetadataOf, statisticsOfAll } from "../inference/described.ts";
import { configTexts } from "../model-config/config-json.ts";
import { internal, invalidArg, TritonError } from "../model-config/status.ts";
import { versionNumber } from "../models/version-number.ts";
import { asBoolean, asBytesText, documentPieces, find } from "../tensors/access.ts";
import { fromBytesText } from "../tensors/datatypes.ts";
import type { JsonNode } from "../tensors/json-nodes.ts";
import { errorText, type HandlerAnswer, type HttpCall, jsonAnswer, plain } from "./call.ts";
import { fewMembers, jsonBody, settingsBody } from "./input-limit.ts";
import { jsonTexts, toldJson } from "./long-json.ts";

type Answer = HandlerAnswer | Promise<HandlerAnswer>;

export const serverMetadata = (call: HttpCall): Answer =>
  toldJson(call, jsonTexts(serverMetadataOf(call.around.server)));

export const health = ({ found: [kind], around }: HttpCall): HandlerAnswer =>
  plain("", kind === "live" || around.server.ready ? 200 : 400);

export function modelReady({ found: [name = "", version], around }: HttpCall): HandlerAnswer {
  return around.server.isReady(name, versionNumber(version))
    ? plain("")
    : plain(errorText("Model version not ready"), 400);
}

export function modelMetadata(call: HttpCall): Answer {
  const [name = "", version] = call.found;
  return toldJson(call, jsonTexts(modelMetadataOf(call.around.server, name, versionNumber(version))));
}

export function modelConfig(call: HttpCall): Answer {
  const [name = "", version] = call.found;
  const { server } = call.around;
  const { config } = server.find(name, versionNumber(version));
  return toldJson(call, configTexts(config, server.facts.laterFields));
}

export function modelStatistics(call: HttpCall): Answer {
  const [name, version] = call.found;
  const models = call.around.server.statistics(name ?? null, versionNumber(version));
  return toldJson(call, jsonTexts({ model_stats: statisticsOfAll(models) }));
}

/** Parses the body. Returns null if it is empty. */
async function documentIn(call: HttpCall, read = settingsBody): Promise<JsonNode | null> {
  const body = await read(call);
  return body.length === 0 ? null : inTurns(documentPieces(body), call.around.turns);
}

export async function repositoryIndex(call: HttpCall): Promise<HandlerAnswer> {
  const { server } = call.around;
  const ready = find(await documentIn(call), "ready");
  if (ready !== undefined && typeof ready !== "boolean" && server.facts.checksReady)
    throw invalidArg("Invalid value for 'ready': expected a boolean");
  return toldJson(call, jsonTexts(server.index(ready !== undefined && asBoolean(ready))));
}

/** Reports whether an unload includes the steps of an ensemble. A value of another type counts as false. */
async function withDependents(call: HttpCall): Promise<boolean> {
  try {
    const parameters = find(await documentIn(call), "parameters");
    return find(parameters ?? null, "unload_dependents") === true;
  } catch (error) {
    if (call.around.server.facts.readsUnload || !(error instanceof TritonError)) throw error;
    return false;
  }
}

export async function repositoryControl(call: HttpCall): Promise<HandlerAnswer> {
  const [repository, , name = "", action] = call.found;
  const { server } = call.around;
  if (repository !== undefined)
    throw new TritonError("UNSUPPORTED", "'repository_name' specification is not supported");
  if (action === "unload") {
    server.unload(name, await withDependents(call));
    return jsonAnswer("");
  }
  // `jsonBody`, because a load may contain files.
  const parameters = find(await documentIn(call, jsonBody), "parameters");
  let config: string | null = null;
  const files = new Map<string, number>();
  for (const [key, value] of parameters === undefined ? [] : fewMembers(parameters)) {
    const text = asBytesText(value);
    if (key === "config") config = fromBytesText(text);
    else if (key.startsWith("file:"))
      files.set(fromBytesText(key.slice(5)), await inTurns(base64Bytes(text), call.around.turns));
    else throw internal("unexpected error on creating Triton parameter");
  }
  await server.load(name, { config, files });
  return jsonAnswer("");
}

/** Characters decoded between two yields: a multiple of 4. */
const CHARACTERS_OF_A_PIECE = 65_536;
const PLAIN_BASE64 = /^[A-Za-z0-9+/]*$/;

/** Returns the size of base64 data without decoding it. Text with other characters is decoded in one go. */
function* base64Bytes(text: string): Pieces<number> {
  let at = 0;
  for (; text.length - at > CHARACTERS_OF_A_PIECE; at += CHARACTERS_OF_A_PIECE) {
    if (!PLAIN_BASE64.test(text.slice(at, at + CHARACTERS_OF_A_PIECE))) break;
    yield;
  }
  return (at / 4) * 3 + Buffer.from(text.slice(at), "base64").length;
}
