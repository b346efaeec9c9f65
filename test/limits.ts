/** Limits for request validation, for tests and benches that read bodies without a server. */
import type { Limits } from "../src/servers/openai/request/request.ts";

export const LIMITS: Limits = {
  maxModelLen: 131_072,
  maxLogprobs: 20,
  vocabularySize: 201_088,
  maxTokenCharacters: 128,
  servedModelNames: ["m"],
  loraNames: [],
  parsesTools: true,
};
