/** Starts and ends a server: its kernel, and the listeners that use it. */

import { loadExpressionLibraries } from "../base/expression-libraries.ts";
import { workWhenIdle } from "../base/time/idle-work.ts";
import type { Fleet } from "../engine/fleet.ts";
import type { JournalText } from "../engine/journal.ts";
import {
  createKernel,
  createReusableParts,
  type KernelOptions,
  pause,
  type ReusableParts,
} from "../kernel/create-kernel.ts";
import type { Kernel, KernelEngines, KernelMetrics } from "../kernel/kernel.ts";
import type { KernelConfig, StartConfig } from "../kernel/kernel-config.ts";
import type { Listeners, Server } from "../kernel/server.ts";
import { type HttpRoute, httpRoutes } from "../metrics/rows/http-counts.ts";
import { countedBy } from "../servers/openai/front/served.ts";
import type { RunningConfig, ServeConfig } from "./config/serve-config.ts";
import { loadServer } from "./table.ts";

/** Time to send the last bytes after a shutdown, in microseconds. */
const FLUSH_US = 100_000;

export interface App
  extends Pick<KernelEngines, "died" | "streamWrites">,
    Pick<KernelMetrics, "snapshot">,
    Pick<Listeners, "url" | "tritonUrl" | "http2Url" | "otherUrls" | "handle" | "banner"> {
  readonly engines: Fleet;
  /** End-of-sequence token id. With journals and configuration it suffices to replay the engines. */
  readonly eosId: number;
  /** Returns the last commands of each core, in order of engines. */
  journals(): JournalText[];
  /** Begins the work that the first requests do not need. Call once, after the start. Each piece waits until no request runs. */
  workWhenIdle(): void;
  /**
   * Waits up to `graceS` seconds for running requests, then ends them with reason abort. Returns the reason if the process
   * must end with an error.
   */
  close(graceS: number): Promise<string | undefined>;
}

/** An app that can replace its kernel and keep its listeners. */
export interface RenewableApp<C extends KernelConfig = KernelConfig> extends App {
  /** The kernel that serves new requests. */
  readonly kernel: Kernel<C>;
  /**
   * Replaces everything but the listeners. Running requests end with reason abort. `turned` is called once new requests go
   * to the new kernel. Await a call before the next one.
   */
  renew(options: KernelOptions, turned: () => void): Promise<void>;
}

/** Starts the server of the configured role. Rejects with the errors of `createKernel` and of the server's `start`. */
export function createApp(config: ServeConfig, options: KernelOptions): Promise<App> {
  return startApp(loadServer(config), config, options, httpRoutes(countedBy(config)));
}

export async function createRenewableApp(
  config: ServeConfig,
  options: KernelOptions,
): Promise<RenewableApp<RunningConfig>> {
  const reusable = await createReusableParts(config, options);
  return startApp(loadServer(config), config, options, httpRoutes(countedBy(config)), reusable).catch(async (why) => {
    await reusable.close();
    throw why;
  });
}

/** Starts any server. `routes`: routes whose HTTP requests are counted. `reusable`: present if `renew` will be called. */
export async function startApp<C extends KernelConfig>(
  loading: Server<C> | Promise<Server<C>>,
  config: C & StartConfig,
  options: KernelOptions,
  routes: readonly HttpRoute[] = [],
  reusable?: ReusableParts,
): Promise<RenewableApp<C>> {
  const [server, first] = await Promise.all([loading, createKernel(config, routes, options, reusable)]);
  let kernel = first;
  const {
    idleWork = [],
    drain,
    turnTo,
    stop,
    ...shown
  } = await server.start(first).catch(async (why) => {
    await first.lifecycle.close();
    throw why;
  });
  let stopIdleWork = () => {};
  return {
    otherUrls: {},
    ...shown,
    get kernel() {
      return kernel;
    },
    get engines() {
      return kernel.engines.fleet;
    },
    get died() {
      return kernel.engines.died;
    },
    streamWrites: first.engines.streamWrites,
    snapshot: () => kernel.metrics.snapshot(),
    eosId: first.text.model.vocabulary.eosId,
    journals: () => kernel.engines.journals.map((journal) => journal.text()),
    workWhenIdle() {
      const isIdle = () => kernel.engines.fleet.live === 0;
      stopIdleWork = workWhenIdle(first.time.clock, isIdle, [...idleWork, loadExpressionLibraries]);
    },
    async renew(anew, turned) {
      const before = kernel;
      kernel = await createKernel(config, routes, anew, reusable);
      const turning = turnTo(kernel);
      turned();
      before.engines.fleet.abortAll();
      await turning;
      before.metrics.renderer.stop();
      await before.lifecycle.close();
    },
    async close(graceS) {
      const { time, lifecycle } = kernel;
      const { clock } = time;
      stopIdleWork();
      const stopped = stop();
      const untilUs = clock.now() + graceS * 1e6;
      // The server drains first, because the kernel aborts requests at the end of the grace time, and the server must count them.
      const why = await drain?.(untilUs);
      await lifecycle.drain(untilUs);
      await Promise.race([stopped, pause(clock, FLUSH_US)]);
      await stop(true);
      await lifecycle.close();
      await reusable?.close();
      return why;
    },
  };
}
