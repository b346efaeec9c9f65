/** A loaded model version. Answers a request from the response cache if it can, and otherwise executes the request. */
import type { TritonError } from "../model-config/status.ts";
import { lookUp } from "./cached.ts";
import type { InferAnswer, InferRequest } from "./request.ts";
import type { ModelVersion, SharedParts, VersionParts } from "./served.ts";

export abstract class LoadedVersion implements ModelVersion {
  readonly name: string;
  readonly version: number;
  readonly config: ModelVersion["config"];
  readonly labels: ModelVersion["labels"];
  readonly statistics: ModelVersion["statistics"];
  live = 0;

  constructor(
    { config, labels, statistics, version }: VersionParts,
    protected readonly shared: SharedParts,
  ) {
    this.name = config.name;
    this.version = version;
    this.config = config;
    this.labels = labels;
    this.statistics = statistics;
  }

  abstract get dead(): boolean;

  submit(request: InferRequest): void {
    const nowUs = this.shared.clock.now();
    request.startUs ||= nowUs;
    request.queuedUs = nowUs;
    const found = lookUp(this, request, this.shared);
    if (found === null || typeof found === "string") this.accept(request, found, nowUs);
    else this.send(request, found, true);
  }

  /**
   * Sends a response to the receiver. Counts the first response of a request. `nowUs`: the time, if the caller has read it
   * already.
   */
  send(request: InferRequest, answer: InferAnswer | TritonError | null, final: boolean, nowUs?: number): void {
    if (answer !== null && !request.responded) {
      request.responded = true;
      this.statistics.reporter.responded((nowUs ?? this.shared.clock.now()) - request.startUs);
    }
    request.receiver.respond(answer, final);
  }

  /** Executes a request that the cache does not answer. `key`: where to insert its answer in the cache; null: nowhere. */
  protected abstract accept(request: InferRequest, key: string | null, nowUs: number): void;
}
