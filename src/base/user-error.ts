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
