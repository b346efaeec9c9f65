/** In which order do responses leave where it is that of their requests, whatever is ready first? */

interface Held<R> {
  readonly request: R;
  readonly sends: (() => void)[];
  over: boolean;
}

export class OrderedResponses<R> {
  /** In order of arrival; the first one's responses leave at once. */
  readonly #queue: Held<R>[] = [];

  enter(request: R): void {
    this.#queue.push({ request, sends: [], over: false });
  }

  /** Sends it now, or when all requests before have had their last response. */
  send(request: R, send: () => void, final: boolean): void {
    const held = this.#queue.find((one) => one.request === request)!;
    held.sends.push(send);
    held.over = final;
    for (let first = this.#queue[0]; first !== undefined; first = this.#queue[0]) {
      for (const one of first.sends.splice(0)) one();
      if (!first.over) return;
      this.#queue.shift();
    }
  }
}
