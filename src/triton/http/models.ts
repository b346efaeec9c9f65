/** What do the paths of server, models and repository answer? Metadata, readiness, configuration, statistics, index, load, unload. */
import { configJson } from "../../repository/config/config-json.ts";
import { internal, invalidArg, TritonError } from "../../repository/config/status.ts";
import { asBoolean, asBytesText, documentOf, find, membersOf, within } from "../../repository/tensors/access.ts";
import { fromBytesText, toBytesText } from "../../repository/tensors/datatypes.ts";
import type { JsonNode } from "../../repository/tensors/json-nodes.ts";
import { modelMetadataOf, serverMetadataOf, statisticsOf } from "../server/described.ts";
import { errorText, type HandlerAnswer, type HttpCall, jsonAnswer, plain } from "./call.ts";

const told = (value: unknown): HandlerAnswer => jsonAnswer(toBytesText(JSON.stringify(value)));

export const serverMetadata = ({ around }: HttpCall): HandlerAnswer => told(serverMetadataOf(around.server));

export const health = ({ found: [kind], around }: HttpCall): HandlerAnswer =>
  plain("", kind === "live" || around.server.ready ? 200 : 400);

const versionOf = (version: string | undefined): number => (version === undefined ? -1 : Number(version));

export function modelReady({ found: [name = "", version], around }: HttpCall): HandlerAnswer {
  return around.server.isReady(name, versionOf(version)) ? plain("") : plain(errorText("Model version not ready"), 400);
}

export const modelMetadata = ({ found: [name = "", version], around: { server } }: HttpCall): HandlerAnswer =>
  told(modelMetadataOf(server, name, versionOf(version)));

export function modelConfig({ found: [name = "", version], around: { server } }: HttpCall): HandlerAnswer {
  const { config } = server.find(name, versionOf(version));
  return told(configJson(config, server.facts.laterFields));
}

export function modelStatistics({ found: [name, version], around: { server } }: HttpCall): HandlerAnswer {
  return told({ model_stats: server.statistics(name ?? null, versionOf(version)).map(statisticsOf) });
}

/** null: the body is empty. */
async function documentIn(call: HttpCall): Promise<JsonNode | null> {
  const body = (await call.body()) ?? new Uint8Array();
  return body.length === 0 ? null : documentOf(body);
}

export async function repositoryIndex(call: HttpCall): Promise<HandlerAnswer> {
  const ready = find(await documentIn(call), "ready");
  if (ready !== undefined && typeof ready !== "boolean")
    throw invalidArg("Invalid value for 'ready': expected a boolean");
  return told(call.around.server.index(ready === true));
}

export async function repositoryControl(call: HttpCall): Promise<HandlerAnswer> {
  const [repository, , name = "", action] = call.found;
  const { server } = call.around;
  if (repository !== undefined)
    throw new TritonError("UNSUPPORTED", "'repository_name' specification is not supported");
  const parameters = find(await documentIn(call), "parameters");
  if (action === "unload") {
    const dependents = find(parameters ?? null, "unload_dependents");
    const all = dependents !== undefined && within("Unable to parse 'unload_dependents'", asBoolean, dependents);
    server.unload(name, all);
    return jsonAnswer("");
  }
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
