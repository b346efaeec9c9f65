/** Who has how much of the GPUs' memory? A ledger: what does not fit is refused, with the sizes. Pure. */
import { sizeText } from "../model-config/sizes.ts";

/** What the engine of LLM models holds, all of its GPUs together; those are the first ones. */
export interface EngineShare {
  readonly weightBytes: number;
  readonly kvBytes: number;
  readonly gpus: number;
}

export interface DeviceMemoryOptions {
  /** Memory of each GPU, bytes; null: everything fits. */
  readonly gpuBytes: number | null;
  readonly engine: EngineShare;
  /** Shares of a GPU's memory that a load may not lead beyond, by GPU. */
  readonly loadLimits: ReadonlyMap<number, number>;
}

/** What a version of a model has taken. */
export interface MemoryHold {
  /** Weights that came with it, bytes; 0 for an engine that was there already. */
  readonly weightBytes: number;
  /** Those on which something of it is. */
  readonly gpus: readonly number[];
  /** For the log: `, weights of 3.00 GiB on GPU 0`; "": nothing is on a GPU. */
  readonly text: string;
  /** Gives it back; once, however often it is called. */
  give(): void;
}

interface Taken {
  readonly holder: string;
  readonly bytes: number;
  readonly gpus: readonly number[];
}

type SayBytes = (bytes: number) => string;

/** A refusal names the largest models, so many of them. */
const NAMED_MOST = 8;

export class DeviceMemory {
  readonly #gpuBytes: number | null;
  readonly #engine: EngineShare;
  readonly #loadLimits: ReadonlyMap<number, number>;
  readonly #engineGpus: readonly number[];
  /** Models that the engine serves. */
  #engineUsers = 0;
  readonly #taken = new Set<Taken>();

  constructor({ gpuBytes, engine, loadLimits }: DeviceMemoryOptions) {
    this.#gpuBytes = gpuBytes;
    this.#loadLimits = loadLimits;
    this.#engine = engine;
    this.#engineGpus = Array.from({ length: engine.gpus }, (_, gpu) => gpu);
  }

  /** `bytes` on each of `gpus`, for whom refusals call `holder`. A text: why it does not fit. */
  take(holder: string, bytes: number, gpus: readonly number[]): MemoryHold | string {
    const full = gpus.find((gpu) => bytes > this.#freeBytes(gpu));
    if (full !== undefined) return this.#refusal(full, bytes, (say) => `weights of ${say(bytes)}`);
    const taken = { holder, bytes, gpus };
    this.#taken.add(taken);
    const text = bytes > 0 && gpus.length > 0 ? `, weights of ${sizeText(bytes)} on ${gpuNames(gpus)}` : "";
    return { weightBytes: bytes, gpus, text, give: () => this.#taken.delete(taken) };
  }

  /** Weights and KV blocks of the engine: once, however many models it serves. A text: why they do not fit. */
  takeEngine(): MemoryHold | string {
    const { weightBytes, kvBytes, gpus } = this.#engine;
    const isFirst = this.#engineUsers === 0;
    const eachBytes = this.#engineBytesEach();
    const full = isFirst ? this.#engineGpus.find((gpu) => eachBytes > this.#freeBytes(gpu)) : undefined;
    const what = (say: SayBytes) => `weights of ${say(weightBytes / gpus)} and KV blocks of ${say(kvBytes / gpus)}`;
    if (full !== undefined) return this.#refusal(full, eachBytes, what);
    this.#engineUsers++;
    let given = false;
    return {
      weightBytes: isFirst ? weightBytes : 0,
      gpus: this.#engineGpus,
      text: `, ${what(sizeText)} on ${gpuNames(this.#engineGpus)}`,
      give: () => {
        if (!given) this.#engineUsers--;
        given = true;
      },
    };
  }

  /** More of the GPU is taken than a load may leave. */
  isBeyondLimit(gpu: number): boolean {
    const limit = this.#loadLimits.get(gpu);
    if (limit === undefined || this.#gpuBytes === null) return false;
    return this.usedBytes(gpu) > limit * this.#gpuBytes;
  }

  #engineBytesEach(): number {
    const { weightBytes, kvBytes, gpus } = this.#engine;
    return Math.ceil((weightBytes + kvBytes) / gpus);
  }

  #engineIsOn(gpu: number): boolean {
    return this.#engineUsers > 0 && gpu < this.#engine.gpus;
  }

  #on(gpu: number): Taken[] {
    return [...this.#taken].filter(({ bytes, gpus }) => bytes > 0 && gpus.includes(gpu));
  }

  usedBytes(gpu: number): number {
    const ofModels = this.#on(gpu).reduce((all, { bytes }) => all + bytes, 0);
    return ofModels + (this.#engineIsOn(gpu) ? this.#engineBytesEach() : 0);
  }

  #freeBytes(gpu: number): number {
    return this.#gpuBytes === null ? Number.POSITIVE_INFINITY : this.#gpuBytes - this.usedBytes(gpu);
  }

  #refusal(gpu: number, bytes: number, what: (say: SayBytes) => string): string {
    const freeBytes = this.#freeBytes(gpu);
    // Rounded, both may read alike.
    const say: SayBytes = sizeText(bytes) === sizeText(freeBytes) ? (exact) => `${Math.ceil(exact)} B` : sizeText;
    const { weightBytes, kvBytes, gpus } = this.#engine;
    const ofEngine = this.#engineIsOn(gpu)
      ? [`the engine's weights ${say(weightBytes / gpus)}`, `its KV blocks ${say(kvBytes / gpus)}`]
      : [];
    const models = this.#on(gpu).sort((a, b) => b.bytes - a.bytes);
    const ofModels = models.slice(0, NAMED_MOST).map((one) => `${one.holder} ${say(one.bytes)}`);
    const more = models.length > NAMED_MOST ? [`${models.length - NAMED_MOST} models more`] : [];
    const list = [...ofEngine, ...ofModels, ...more].join(", ");
    return (
      `out of memory on GPU ${gpu}: ${what(say)} do not fit into the ${say(freeBytes)} that are free of ` +
      `${say(this.#gpuBytes!)}${list === "" ? "" : ` (taken: ${list})`}`
    );
  }
}

const gpuNames = (gpus: readonly number[]): string => `GPU ${gpus.join(", ")}`;
