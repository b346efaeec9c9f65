/** Who may collect what receivers write, until the rows of a step are handed out? Whoever sends it all by one call. */
export interface StepWrites {
  /** Rows of a step are about to be handed out: from here to `end` what is written may wait. */
  begin(): void;
  /** What was collected leaves now. */
  flush(): void;
  /** All of it has left when this returns. */
  end(): void;
}
