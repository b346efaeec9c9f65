/** The common part of forms whose stream consists of chunks of one JSON object, as in OpenAI's chat and completions. */
import type { Ids } from "../../../base/random.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import type { AnswerContext } from "./context.ts";
import type { ChoiceSoFar, Form, Frame, Piece, WholeChoice } from "./form.ts";
import type { LongTexts } from "./long-body.ts";

const encoder = new TextEncoder();

export abstract class ChunkedForm implements Form {
  protected context!: AnswerContext;

  abstract id(header: string | null, newId: Ids): string;
  abstract piece(piece: Piece): readonly string[];
  abstract ended(choices: readonly ChoiceSoFar[]): readonly string[];
  abstract failed(error: ErrorAnswer): readonly string[] | null;
  abstract whole(choices: readonly WholeChoice[], long: LongTexts): string;
  /** Returns the bytes of a chunk before its text. `suffix` has the bytes after it. For chunks that contain only text. */
  protected abstract prefix(index: number): string;
  protected abstract readonly suffix: Uint8Array;

  accepted(context: AnswerContext): readonly string[] {
    this.context = context;
    return [];
  }

  frame(index: number): Frame | null {
    const { returnTokenIds, continuousUsage } = this.context.output;
    if (returnTokenIds || continuousUsage) return null;
    return { prefix: encoder.encode(this.prefix(index)), suffix: this.suffix, showsEmpty: true };
  }

  /** Returns the number of tokens of all prompts together, and of these choices together. */
  protected tokensOf(choices: readonly ChoiceSoFar[]): { readonly prompt: number; readonly completion: number } {
    return {
      prompt: this.context.prompts.reduce((sum, { tokens }) => sum + tokens, 0),
      completion: choices.reduce((sum, { tokens }) => sum + tokens, 0),
    };
  }
}
