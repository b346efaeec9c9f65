/** Which request does a route take, and who reads it? */
import type { Asker } from "../form.ts";
import type { Read } from "../read-body.ts";
import type { ChatRequest, CompletionRequest, Limits } from "../request.ts";
import { readBatch, readInvocation } from "./batch.ts";
import { readChat, readCompletion } from "./read.ts";

type Asking = ChatRequest | CompletionRequest;
type OfOurs = Asking["kind"] | "batch" | "invocation";
/** What a route takes; an `Asker` is another dialect's. */
export type Entry = OfOurs | Asker;

const READERS: Readonly<Record<OfOurs, (...given: Parameters<typeof readChat>) => Read<Asking>>> = {
  chat: readChat,
  completion: readCompletion,
  batch: readBatch,
  invocation: readInvocation,
};

export function readAs(entry: Entry, body: Uint8Array, type: string | null, limits: Limits) {
  return typeof entry === "string" ? READERS[entry](body, type, limits) : entry.read(body, type, limits);
}
