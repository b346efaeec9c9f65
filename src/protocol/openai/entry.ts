/** Which request does a route take, and who reads it? */
import type { Asker } from "../form.ts";
import { inTurns, type Pieces } from "../pieces.ts";
import type { Read } from "../read-body.ts";
import type { ChatRequest, CompletionRequest, Limits } from "../request.ts";
import { readBatch, readInvocation } from "./batch.ts";
import type { Backend } from "./front.ts";
import { chatPieces, completionPieces, readChat, readCompletion } from "./read.ts";

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

/** What the others read, they read in one piece. */
const IN_PIECES: Partial<Record<OfOurs, (...given: Parameters<typeof readChat>) => Pieces<Read<Asking>>>> = {
  chat: chatPieces,
  completion: completionPieces,
};

/** A large body, in pieces with turns of the event loop between. Time to spare is waited for before it and behind it. */
export async function readLarge(
  backend: Backend,
  ...[entry, ...given]: Parameters<typeof readAs>
): Promise<ReturnType<typeof readAs>> {
  await backend.spare();
  const pieces = typeof entry === "string" ? IN_PIECES[entry] : entry.pieces;
  const read = pieces === undefined ? readAs(entry, ...given) : await inTurns(pieces(...given), backend);
  // The prompt goes to the encoder's thread next, which takes the processor first where there is one for both.
  await backend.spare();
  return read;
}

export function readAs(entry: Entry, body: Uint8Array, type: string | null, limits: Limits) {
  return typeof entry === "string" ? READERS[entry](body, type, limits) : entry.read(body, type, limits);
}
