/** Which GPUs are there, and how long has each computed? One is there from when a model first asks for it. Pure. */

interface Use {
  /** Batches that it computes now. */
  running: number;
  fromUs: number;
  busyUs: number;
}

export class Gpus {
  readonly #uses = new Map<number, Use>();

  asked(gpus: readonly number[]): void {
    for (const gpu of gpus) if (!this.#uses.has(gpu)) this.#uses.set(gpu, { running: 0, fromUs: 0, busyUs: 0 });
  }

  get all(): readonly number[] {
    return [...this.#uses.keys()].sort((a, b) => a - b);
  }

  began(gpu: number, nowUs: number): void {
    const use = this.#uses.get(gpu)!;
    if (use.running++ === 0) use.fromUs = nowUs;
  }

  ended(gpu: number, nowUs: number): void {
    const use = this.#uses.get(gpu)!;
    if (--use.running === 0) use.busyUs += nowUs - use.fromUs;
  }

  /** How long it has computed so far, however many batches at a time. */
  busyUs(gpu: number, nowUs: number): number {
    const { running, fromUs, busyUs } = this.#uses.get(gpu)!;
    return busyUs + (running > 0 ? nowUs - fromUs : 0);
  }
}
