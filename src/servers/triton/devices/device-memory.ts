/** Records which models use how much GPU memory. Refuses a load that does not fit, and names the sizes. Pure. */
import { sizeText } from "../model-config/sizes.ts";

/** Memory that the engine of the LLM models needs, summed over its GPUs. The engine uses the first `gpus` GPUs. */
export interface EngineShare {
  readonly weightBytes: number;
  readonly kvBytes: number;
  readonly gpus: number;
}

export interface DeviceMemoryOptions {
  /** Memory of each GPU in bytes. Null: no limit. */
  readonly gpuBytes: number | null;
  readonly engine: EngineShare;
  /** Largest share of a GPU's memory that may be in use for a load to succeed, by GPU. */
  readonly loadLimits: ReadonlyMap<number, number>;
}

/** Memory that a model version has reserved. */
export interface MemoryReservation {
  /** Bytes of weights that this version added. 0 if the engine was already loaded. */
  readonly weightBytes: number;
  /** GPUs on which the version has weights or KV blocks. */
  readonly gpus: readonly number[];
  /** Text for the log, such as `, weights of 3.00 GiB on GPU 0`, or "" if nothing is on a GPU. */
  readonly text: string;
  /** Releases the memory. Later calls have no effect. */
  give(): void;
}

interface Allocation {
  readonly holder: string;
  readonly bytes: number;
  readonly gpus: readonly number[];
}

type SayBytes = (bytes: number) => string;

/** Most models that a refusal names, largest first. */
const NAMED_MOST = 8;

export class DeviceMemory {
  readonly #engineGpus: readonly number[];
  /** Number of loaded models that use the engine. */
  #engineUsers = 0;
  readonly #allocations = new Set<Allocation>();

  constructor(private readonly options: DeviceMemoryOptions) {
    this.#engineGpus = Array.from({ length: options.engine.gpus }, (_, gpu) => gpu);
  }

  /**
   * Reserves `bytes` on each of `gpus`. `holder`: name of the model in refusals. Returns the reason as text if the memory is
   * not free.
   */
  take(holder: string, bytes: number, gpus: readonly number[]): MemoryReservation | string {
    const full = gpus.find((gpu) => bytes > this.#freeBytes(gpu));
    if (full !== undefined) return this.#refusal(full, bytes, (say) => `weights of ${say(bytes)}`);
    const allocation = { holder, bytes, gpus };
    this.#allocations.add(allocation);
    const text = bytes > 0 && gpus.length > 0 ? `, weights of ${sizeText(bytes)} on ${gpuNames(gpus)}` : "";
    return { weightBytes: bytes, gpus, text, give: () => this.#allocations.delete(allocation) };
  }

  /**
   * Reserves the weights and KV blocks of the engine, once for all its models. Returns the reason as text if the memory is not
   * free.
   */
  takeEngine(): MemoryReservation | string {
    const { weightBytes, kvBytes, gpus } = this.options.engine;
    const isFirst = this.#engineUsers === 0;
    const eachBytes = this.#engineBytesEach();
    const full = isFirst ? this.#engineGpus.find((gpu) => eachBytes > this.#freeBytes(gpu)) : undefined;
    const what = (say: SayBytes) => `weights of ${say(weightBytes / gpus)} and KV blocks of ${say(kvBytes / gpus)}`;
    if (full !== undefined) return this.#refusal(full, eachBytes, what);
    this.#engineUsers++;
    let released = false;
    return {
      weightBytes: isFirst ? weightBytes : 0,
      gpus: this.#engineGpus,
      text: `, ${what(sizeText)} on ${gpuNames(this.#engineGpus)}`,
      give: () => {
        if (!released) this.#engineUsers--;
        released = true;
      },
    };
  }

  /** True if more of the GPU is in use than its load limit allows. */
  isBeyondLimit(gpu: number): boolean {
    const limit = this.options.loadLimits.get(gpu);
    if (limit === undefined || this.options.gpuBytes === null) return false;
    return this.usedBytes(gpu) > limit * this.options.gpuBytes;
  }

  #engineBytesEach(): number {
    const { weightBytes, kvBytes, gpus } = this.options.engine;
    return Math.ceil((weightBytes + kvBytes) / gpus);
  }

  #engineIsOn(gpu: number): boolean {
    return this.#engineUsers > 0 && gpu < this.options.engine.gpus;
  }

  #on(gpu: number): Allocation[] {
    return [...this.#allocations].filter(({ bytes, gpus }) => bytes > 0 && gpus.includes(gpu));
  }

  usedBytes(gpu: number): number {
    const ofModels = this.#on(gpu).reduce((all, { bytes }) => all + bytes, 0);
    return ofModels + (this.#engineIsOn(gpu) ? this.#engineBytesEach() : 0);
  }

  #freeBytes(gpu: number): number {
    return this.options.gpuBytes === null ? Number.POSITIVE_INFINITY : this.options.gpuBytes - this.usedBytes(gpu);
  }

  #refusal(gpu: number, bytes: number, what: (say: SayBytes) => string): string {
    const freeBytes = this.#freeBytes(gpu);
    // Print exact bytes if both sizes would look the same after rounding.
    const say: SayBytes = sizeText(bytes) === sizeText(freeBytes) ? (exact) => `${Math.ceil(exact)} B` : sizeText;
    const { weightBytes, kvBytes, gpus } = this.options.engine;
    const ofEngine = this.#engineIsOn(gpu)
      ? [`the engine's weights ${say(weightBytes / gpus)}`, `its KV blocks ${say(kvBytes / gpus)}`]
      : [];
    const models = this.#on(gpu).sort((a, b) => b.bytes - a.bytes);
    const ofModels = models.slice(0, NAMED_MOST).map((allocation) => `${allocation.holder} ${say(allocation.bytes)}`);
    const more = models.length > NAMED_MOST ? [`${models.length - NAMED_MOST} models more`] : [];
    const list = [...ofEngine, ...ofModels, ...more].join(", ");
    return (
      `out of memory on GPU ${gpu}: ${what(say)} do not fit into the ${say(freeBytes)} that are free of ` +
      `${say(this.options.gpuBytes!)}${list === "" ? "" : ` (taken: ${list})`}`
    );
  }
}

const gpuNames = (gpus: readonly number[]): string => `GPU ${gpus.join(", ")}`;
