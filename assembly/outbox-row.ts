// Layout of an outbox row. Read by asc and by tsc, like layout.ts; wire/lanes/lanes.c gets the numbers as macros.

/** Words of a row. */
export enum OutWord {
  Slot,
  /** Index of the first token in the token column. */
  TokenAt,
  /** Number of tokens. */
  Tokens,
  /** OUT_* flags. */
  Flags,
}
