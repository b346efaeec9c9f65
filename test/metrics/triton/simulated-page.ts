/** An engine on virtual time and the page of its Triton metrics port. */

import { VirtualClock } from "../../../src/base/virtual-clock.ts";
import { histogramBounds, LOOP_BOUNDS } from "../../../src/engine/config/buckets.ts";
import type { EngineConfig } from "../../../src/engine/config/engine-config.ts";
import { Engine } from "../../../src/engine/engine.ts";
import type { Generation } from "../../../src/engine/interface/types.ts";
import { refreshesOf } from "../../../src/metrics/dialects.ts";
import { Ensemble, ensembleWidth } from "../../../src/metrics/ensemble/ensemble.ts";
import { pages } from "../../../src/metrics/page.ts";
import { copiesReader, SnapshotCopies } from "../../../src/metrics/rows/held.ts";
import type { Identity } from "../../../src/metrics/rows/identity.ts";
import {
  answers,
  configOf,
  debug,
  EOS,
  generationOf,
  RecordingReceiver,
  trtllm,
} from "../../engine/simulated-engine.ts";
import { parseExposition } from "../parse.ts";
import { emptySnapshot, identity } from "../snapshots.ts";

export const QUANTILES = [
  { quantile: 0.5, error: 0.05 },
  { quantile: 0.99, error: 0.001 },
];
export const EPOCH_US = 1.8e15;

/** One engine and the page of its Triton metrics port. */
export class SimulatedPage {
  readonly clock = new VirtualClock(0);
  readonly engine: Engine;
  readonly receivers: RecordingReceiver[] = [];
  readonly #print: () => Promise<string>;

  constructor(readonly config: EngineConfig = configOf()) {
    const { clock } = this;
    const ensemble = new Ensemble(QUANTILES, () => clock.now(), EPOCH_US);
    this.engine = new Engine({
      config,
      clock,
      module: config.trtllm ? trtllm.debug : debug,
      free: false,
      eosId: EOS,
      answers,
      meters: ensemble,
      loopObservers: [{ updating: (nowUs) => held.before(nowUs) }],
    });
    const server: Identity = {
      ...identity,
      triton: {
        ...identity.triton,
        histograms: true,
        quantiles: QUANTILES.map(({ quantile }) => quantile),
        tokensPerBlock: config.blockSize,
        requestsMax: config.maxNumSeqs,
        ...(config.trtllm?.capacitySchedulerPolicy === "STATIC_BATCH" ? { staticBatch: true } : {}),
      },
    };
    const refreshes = refreshesOf(server);
    const shape = {
      engines: 1,
      bounds: histogramBounds(config),
      loopBounds: LOOP_BOUNDS,
      adapters: 0,
      httpRoutes: identity.http.length,
      meters: ensembleWidth(QUANTILES.length),
      truth: false,
    };
    const rest = emptySnapshot();
    const held = new SnapshotCopies(shape, refreshes, (fresh) => ({ ...rest, engines: [this.engine.view(fresh)] }), 0);
    const read = copiesReader(shape, refreshes);
    const print = pages(server);
    this.#print = () => print("tritonserver", read(held.refresh(clock.now())));
  }

  submit(changes: Partial<Generation> = {}, streams = true): RecordingReceiver | null {
    const receiver = new StreamReceiver(generationOf({ arrivalUs: this.clock.now(), ...changes }), this.clock);
    receiver.streams = streams;
    const taken = this.engine.submit(receiver.generation, receiver);
    if ("refused" in taken) return null;
    receiver.submission = taken;
    this.receivers.push(receiver);
    return receiver;
  }

  advance(us: number): void {
    this.clock.advanceTo(this.clock.now() + us);
  }

  text(): Promise<string> {
    return this.#print();
  }

  /** Returns values by name and labels without the model's version: `success{tensorrt_llm}`. */
  async values(): Promise<(series: string) => number> {
    const values = new Map<string, number>();
    for (const { samples } of parseExposition(await this.text())) {
      for (const { name, labels, value } of samples) {
        const kept = labels.filter(([label]) => label !== "version" && label !== "gpu_uuid").map(([, text]) => text);
        values.set(`${name.replace(/^nv_(inference_|trt_llm_)?/, "")}{${kept.join(",")}}`, value);
      }
    }
    return (series) => {
      const value = values.get(series);
      if (value === undefined) throw new Error(`no ${series} among ${[...values.keys()].join(" ")}`);
      return value;
    };
  }
}

class StreamReceiver extends RecordingReceiver {
  streams = true;
}
