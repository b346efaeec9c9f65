/** Implements `/v2/logging`. Source: `HandleLogging` in `http_server.cc` (2026). */

import type { LiveCell } from "../../../base/live-value.ts";
import type { TritonLogSettings } from "../config/triton-config.ts";
import { TritonError } from "../model-config/status.ts";
import { asBoolean, asString, asUnsigned, documentOf, find } from "../tensors/access.ts";
import { toBytesText } from "../tensors/datatypes.ts";
import type { JsonNode } from "../tensors/json-nodes.ts";
import { rapidText } from "../tensors/tensor-json.ts";
import { type HandlerAnswer, type HttpCall, jsonAnswer } from "./call.ts";
import { settingsBody } from "./input-limit.ts";

export async function logging(call: HttpCall): Promise<HandlerAnswer> {
  const settings = call.around.logging;
  if (call.method === "POST") change(settings, documentOf(await settingsBody(call)));
  const { file, info, warning, error, verbose, format } = settings.get();
  const text = (value: string) => rapidText(toBytesText(value));
  return jsonAnswer(
    `{"log_file":${text(file)},"log_info":${info},"log_warning":${warning},"log_error":${error},"log_verbose_level":${verbose},"log_format":${text(format)}}`,
  );
}

/** Changes the settings one after the other. Settings before an invalid value stay changed. */
function change(settings: LiveCell<TritonLogSettings>, document: JsonNode): void {
  const set = <T>(name: string, read: (value: JsonNode) => T, field: keyof TritonLogSettings) => {
    const value = find(document, name);
    if (value !== undefined && value !== null) settings.set({ ...settings.get(), [field]: read(value) });
  };
  const file = find(document, "log_file");
  if (file !== undefined && file !== null)
    throw new TritonError("UNSUPPORTED", "log file location can not be updated through network protocol");
  set("log_info", asBoolean, "info");
  set("log_warning", asBoolean, "warning");
  set("log_error", asBoolean, "error");
  set("log_verbose_level", (value) => Number(BigInt.asIntN(32, BigInt(asUnsigned(value)))), "verbose");
  set("log_format", formatOf, "format");
}

function formatOf(value: JsonNode): string {
  const format = asString(value);
  if (format === "default" || format === "ISO8601") return format;
  throw new TritonError("UNAVAILABLE", `invalid argument for --log_format, got: ${format}`);
}
