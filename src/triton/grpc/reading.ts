/** Reads messages of clients: a short one at once, a longer one in pieces, between which the event loop turns. */
import type { GrpcStatus } from "../../grpc/status.ts";
import { atOnceOrInTurns, type Pieces } from "../../python/pieces.ts";
import type { ServerAround } from "../server/around.ts";
import { MessageRefused, MessageRoom } from "./message-room.ts";
import { Unreadable } from "./wire.ts";

export const UNREADABLE: GrpcStatus = { code: "INTERNAL", message: "Unable to parse request" };

export const roomOf = ({ config, messages }: ServerAround): MessageRoom =>
  new MessageRoom(config.grpcMessageFields, messages);

/** What the work reads, or the status with which it is refused. What was read counts in the room, unless it is refused. */
export function readWith<T extends object>(
  work: Pieces<T>,
  room: MessageRoom,
  bytes: number,
  turns: ServerAround["turns"],
): T | GrpcStatus | Promise<T | GrpcStatus> {
  const kept = (read: T): T => {
    room.keep(bytes);
    return read;
  };
  try {
    const read = atOnceOrInTurns(work, turns);
    if (!(read instanceof Promise)) return kept(read);
    return read.then(kept).catch((why) => refusal(why, room));
  } catch (why) {
    return refusal(why, room);
  }
}

function refusal(why: unknown, room: MessageRoom): GrpcStatus {
  room.free();
  if (why instanceof MessageRefused) return why.status;
  if (why instanceof Unreadable) return UNREADABLE;
  throw why;
}
