/** Presents a request to a behaviour. */
import type { ModelRequest, ModelResponse, TextStream } from "../behaviours/behaviour.ts";
import type { Tensor } from "../tensors/datatypes.ts";
import type { InferRequest } from "./request.ts";

export class RequestView implements ModelRequest {
  /** True after the last response, and for a slot without a request. */
  #over: boolean;

  constructor(
    private readonly request: InferRequest,
    ready: boolean,
    readonly inputs: ReadonlyMap<string, Tensor>,
    private readonly pass: (request: InferRequest, response: ModelResponse | null, final: boolean) => void,
  ) {
    this.#over = !ready;
  }

  get id(): string {
    return this.request.id;
  }
  get parameters(): string {
    return this.request.parameters;
  }
  get cancelled(): boolean {
    return this.request.cancelled;
  }
  whenCancelled(act: (broken: boolean) => void): void {
    this.request.whenCancelled(act);
  }
  plainText(output: string): TextStream | null {
    const { fields, receiver, responded } = this.request;
    return responded && !this.#over && fields.outputs.length === 0 ? (receiver.plainText?.(output) ?? null) : null;
  }

  send(response: ModelResponse | null, final: boolean): void {
    if (this.#over) return;
    this.#over = final;
    this.pass(this.request, response, final);
  }
}
