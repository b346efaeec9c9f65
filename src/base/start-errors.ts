/** What may go wrong at a start that is no fault of ours? A port that cannot be opened, an option that cannot be put to use. */

/** The system's error, told apart from that of the server's first port. */
export class PortError extends Error {
  override readonly name = "PortError";
  readonly code: string | undefined;
  readonly of: "metrics" | "grpc" | "http2";

  constructor(cause: unknown, of: PortError["of"] = "metrics") {
    super(String(cause), { cause });
    this.of = of;
    this.code = (cause as { code?: string }).code;
  }
}

/** An option that turns out wrong only when it is put to use; its message is the whole line for the user. */
export class UnusableOption extends Error {
  override readonly name = "UnusableOption";
}
