/** Maps each API to the reader of its answers. */

import type { LoadDialect } from "../requests/dialects.ts";
import { embeddingAnswers } from "./embeddings.ts";
import { messageAnswers } from "./messages.ts";
import { chatAnswers, completionAnswers } from "./openai.ts";
import type { AnswerReader } from "./reader.ts";
import { responseAnswers } from "./responses.ts";
import { generateAnswers, inferAnswers } from "./triton.ts";

export const READERS: Readonly<Record<LoadDialect, AnswerReader>> = {
  "openai-chat": chatAnswers,
  openai: completionAnswers,
  "openai-responses": responseAnswers,
  "anthropic-messages": messageAnswers,
  "openai-embeddings": embeddingAnswers,
  "triton-generate": generateAnswers,
  "triton-http": inferAnswers,
  // Unused, because gRPC messages are not JSON. `clients/grpc-client.ts` reads them.
  "triton-grpc": generateAnswers,
};
