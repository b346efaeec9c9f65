/**
 * The memory that messages of clients take in all calls of a server together: messages that have not come whole, those that
 * are unpacked or read, and the requests that have not been answered.
 */
export interface HeldMessages {
  bytes: number;
  /** A message that would take more is refused. */
  readonly most: number;
}

/** How a message is refused that would exceed it. */
export const tooMuchHeld = ({ most }: HeldMessages) =>
  ({ code: "RESOURCE_EXHAUSTED", message: `messages of more than ${most} bytes are under way` }) as const;
