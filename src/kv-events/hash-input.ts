/** Defines the values that a block hash covers. */

/** A list stands for a tuple of Python, and a number for an integer of 32 bits. */
export type HashInput = null | number | string | Uint8Array | ArrayLike<number> | readonly HashInput[];
