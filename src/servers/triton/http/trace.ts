/** Shows and changes trace settings. Writes no traces. Source: `HandleTrace` in `http_server.cc` (2026). */

import { TRACE_NAMES, traceChanges } from "../inference/trace-settings.ts";
import { invalidArg } from "../model-config/status.ts";
import { asArray, asString, documentOf, find } from "../tensors/access.ts";
import type { JsonNode } from "../tensors/json-nodes.ts";
import { type HandlerAnswer, type HttpCall, jsonAnswer } from "./call.ts";
import { settingsBody } from "./input-limit.ts";

/** Handles `GET` and `POST`, for all models or for one. */
export async function traceSettings(call: HttpCall): Promise<HandlerAnswer> {
  const [model = null] = call.found;
  const { server, traces } = call.around;
  if (model !== null && server.versions(model).length === 0) throw invalidArg(`Request for unknown model : ${model}`);
  if (call.method === "POST") traces.set(model, changesIn(documentOf(await settingsBody(call))));
  const now = traces.of(model);
  const numbers = TRACE_NAMES.map((name) => `"${name}":"${now[name]}"`).join(",");
  return jsonAnswer(`{"trace_level":["OFF"],${numbers},"trace_file":"","trace_mode":"triton"}`);
}

function changesIn(document: JsonNode): Record<string, number | null> {
  const level = find(document, "trace_level");
  return traceChanges({
    file: find(document, "trace_file") !== undefined,
    gap: "",
    levels: level === undefined || level === null ? [] : asArray(level).map(asString),
    value(name) {
      const found = find(document, name);
      return found === undefined || found === null ? found : asString(found);
    },
  });
}
