/** Defines errors for ports that cannot be opened and for values of options that turn out wrong. */

/**
 * An error of the system when a port other than the server's first port is opened. `of` names the port's purpose. An error of
 * the first port is thrown unchanged.
 */
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

/** An error that the user can correct: the value of an option turned out wrong when the program used it. */
export class UserError extends Error {
  override readonly name = "UserError";
  /**
   * The option with its value as in a command line, for example `--fixtures FOLDER`. Null if `message` names the cause itself.
   */
  readonly option: string | null;

  /** Makes the error. `message`: one line that does not name the option. */
  constructor(option: string | null, message: string) {
    super(message);
    this.option = option;
  }

  /**
   * Returns the message with the option in front. Not named `line`, because JavaScriptCore gives errors a number of that name.
   */
  get fullMessage(): string {
    return this.option === null ? this.message : `${this.option}: ${this.message}`;
  }
}
