/**
 * The memory that messages of clients take in all calls of a server together: messages that have not come whole, those that
 * are unpacked or read, and the requests that have not been answered.
 */
import { AtATime } from "./at-a-time.ts";

/** Messages that are read at the same time, if reading one takes more than a piece. Each has its objects half made. */
const READ_AT_A_TIME = 4;

export class HeldMessages {
  bytes = 0;
  /** A message that would take more is refused. */
  readonly most: number;
  readonly reading = new AtATime(READ_AT_A_TIME);

  /** `most`: bytes. */
  constructor(most: number) {
    this.most = most;
  }
}

/** The status of a message that would exceed it. */
export const tooMuchHeld = ({ most }: HeldMessages) =>
  ({ code: "RESOURCE_EXHAUSTED", message: `messages of more than ${most} bytes are under way` }) as const;
