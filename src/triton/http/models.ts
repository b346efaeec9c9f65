/** What do the paths of server, models and repository answer? Metadata, readiness, configuration, statistics, index, load, unload. */
import { configJson } from "../../repository/config/config-json.ts";
import { internal, invalidArg, TritonError } from "../../repository/config/status.ts";
import { asBoolean, asBytesText, documentOf, find, membersOf } from "../../repository/tensors/access.ts";
import { fromBytesText, toBytesText } from "../../repository/tensors/datatypes.ts";
import type { JsonNode } from "../../repository/tensors/json-nodes.ts";
import { modelMetadataOf, serverMetadataOf, statisticsOf } from "../server/described.ts";
import { versionNumber } from "../server/version-number.ts";
import { errorText, type HandlerAnswer, type HttpCall, jsonAnswer, plain } from "./call.ts";

const told = (value: unknown): HandlerAnswer => jsonAnswer(toBytesText(JSON.stringify(value)));

export const serverMetadata = ({ around }: HttpCall): HandlerAnswer => told(serverMetadataOf(around.server));

export const health = ({ found: [kind], around }: HttpCall): HandlerAnswer =>
  plain("", kind === "live" || around.server.ready ? 200 : 400);

export function modelReady({ found: [name = "", version], around }: HttpCall): HandlerAnswer {
  return around.server.isReady(name, versionNumber(version))
    ? plain("")
    : plain(errorText("Model version not ready"), 400);
}

export const modelMetadata = ({ found: [name = "", version], around: { server } }: HttpCall): HandlerAnswer =>
  told(modelMetadataOf(server, name, versionNumber(version)));

export function modelConfig({ found: [name = "", version], around: { server } }: HttpCall): HandlerAnswer {
  const { config } = server.find(name, versionNumber(version));
  return told(configJson(config, server.facts.laterFields));
}

export function modelStatistics({ found: [name, version], around: { server } }: HttpCall): HandlerAnswer {
  return told({ model_stats: server.statistics(name ?? null, versionNumber(version)).map(statisticsOf) });
}

/** null: the body is empty. */
async function documentIn(call: HttpCall): Promise<JsonNode | null> {
  const body = (await call.body()) ?? new Uint8Array();
  return body.length === 0 ? null : documentOf(body);
}

export async function repositoryIndex(call: HttpCall): Promise<HandlerAnswer> {
  const { server } = call.around;
  const ready = find(await documentIn(call), "ready");
  if (ready !== undefined && typeof ready !== "boolean" && server.facts.checksReady)
    throw invalidArg("Invalid value for 'ready': expected a boolean");
  return told(server.index(ready !== undefined && asBoolean(ready)));
}

/** Whether an unload takes an ensemble's steps with it; a value of another kind says nothing. */
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
  const parameters = find(await documentIn(call), "parameters");
  let config: string | null = null;
  const files = new Map<string, Uint8Array>();
  for (const [key, value] of parameters === undefined ? [] : membersOf(parameters)) {
    const text = asBytesText(value);
    if (key === "config") config = fromBytesText(text);
    else if (key.startsWith("file:")) files.set(fromBytesText(key.slice(5)), Buffer.from(text, "base64"));
    else throw internal("unexpected error on creating Triton parameter");
  }
  await server.load(name, { config, files });
  return jsonAnswer("");
}
