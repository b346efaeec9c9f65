/** Errors of the user, and of ports that cannot be opened. */

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

/** An error that the user can mend: the value of an option turned out wrong when the program used it. */
export class UserError extends Error {
  override readonly name = "UserError";
  /** The option with its value as in a command line: `--fixtures FOLDER`. null: `message` names the cause itself. */
  readonly option: string | null;

  /** `message`: one line without the option. */
  constructor(option: string | null, message: string) {
    super(message);
    this.option = option;
  }

  /** The line for the user. Not named `line`, because JavaScriptCore gives errors a number of that name. */
  get fullMessage(): string {
    return this.option === null ? this.message : `${this.option}: ${this.message}`;
  }
}
