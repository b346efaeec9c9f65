/**
 * Counts the memory of messages from clients in all calls of a server together: incomplete messages, messages being decompressed
 * or read, and unanswered requests.
 */
import { TaskLimiter } from "./task-limiter.ts";

/** Number of large messages that are read at the same time. Reading each one in slices leaves its objects half made meanwhile. */
const READ_AT_A_TIME = 4;

export class HeldMessages {
  bytes = 0;
  readonly reading = new TaskLimiter(READ_AT_A_TIME);

  /** `most`: limit in bytes. A message that would exceed it is refused. */
  constructor(readonly most: number) {}
}

/** Returns the status for a message that would exceed the limit. */
export const tooMuchHeld = ({ most }: HeldMessages) =>
  ({ code: "RESOURCE_EXHAUSTED", message: `messages of more than ${most} bytes are under way` }) as const;
