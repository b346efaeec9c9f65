/** Parses messages of clients. A long message is parsed in pieces, so that the event loop runs in between. */

import { andThen, orElse } from "../../../base/maybe-promise.ts";
import { atOnceOrInTurns, type Pieces } from "../../../base/pieces.ts";
import { freeMessage } from "../../../wire/grpc/gathered-bytes.ts";
import type { GrpcStatus } from "../../../wire/grpc/status.ts";
import { messageReader } from "../../../wire/protobuf/message-reader.ts";
import { MessageRefused, MessageRoom } from "../../../wire/protobuf/message-room.ts";
import { NotProtobuf } from "../../../wire/protobuf/wire.ts";
import type { ServerAround } from "../inference/around.ts";
import { serviceMessages } from "./fields.ts";

export const UNREADABLE: GrpcStatus = { code: "INTERNAL", message: "Unable to parse request" };

export const readMessage = messageReader(serviceMessages);

/** Shorter messages are parsed before others that wait, because they contain little. */
const SHORT_BYTES = 4096;

export const roomOf = ({ config, messages }: ServerAround): MessageRoom =>
  new MessageRoom(config.overGrpc.messageFields, messages);

/**
 * Parses the bytes of a message. Returns the message, or the status with which it is refused. `room` counts the message's
 * memory, unless it is refused. The caller must not use the bytes afterwards: large buffers that the result does not reference
 * are freed.
 */
export function readWith<T extends object>(
  work: Pieces<T>,
  bytes: Uint8Array,
  room: MessageRoom,
  { turns, messages }: Pick<ServerAround, "turns" | "messages">,
): T | GrpcStatus | Promise<T | GrpcStatus> {
  const kept = (read: T): T => {
    if (room.hasViews) room.keep(bytes.length);
    else freeMessage(bytes);
    return read;
  };
  const refused = (why: unknown): GrpcStatus => {
    room.free();
    freeMessage(bytes);
    if (why instanceof MessageRefused) return why.status;
    if (why instanceof NotProtobuf) return UNREADABLE;
    throw why;
  };
  try {
    const read = atOnceOrInTurns(work, turns, bytes.length > SHORT_BYTES ? messages.reading : undefined);
    return orElse(andThen(read, kept), refused);
  } catch (why) {
    return refused(why);
  }
}
