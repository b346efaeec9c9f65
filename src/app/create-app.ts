/** Starts and ends a server: first its kernel, then its listeners over it. */

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

/** After an orderly end the last bytes get this long to leave. */
const FLUSH_US = 100_000;

export interface App
  extends Pick<KernelEngines, "died" | "streamWrites">,
    Pick<KernelMetrics, "snapshot">,
    Pick<Listeners, "url" | "tritonUrl" | "http2Url" | "otherUrls" | "handle" | "banner"> {
  readonly engines: Fleet;
  /** The end-of-sequence id. With the journals and the configuration it is enough to repeat what the engines did. */
  readonly eosId: number;
  /** The last calls of each core, by engine. */
  journals(): JournalText[];
  /** Begins the work that the first requests do not need. Call once, after the start. Each piece waits until no request runs. */
  workWhenIdle(): void;
  /**
   * Waits up to `graceS` seconds for running requests, then ends them with reason abort. Returns the reason if the process
   * must end with an error.
   */
  close(graceS: number): Promise<string | undefined>;
}

/** An app that can begin anew behind its listeners. */
export interface RenewableApp<C extends KernelConfig = KernelConfig> extends App {
  /** The kernel that serves new requests. */
  readonly kernel: Kernel<C>;
  /**
   * Replaces everything but the listeners. Running requests end with reason abort. `turned` is called when new requests go
   * to the new kernel. Await a call before the next one.
   */
  renew(options: KernelOptions, turned: () => void): Promise<void>;
}

/** Rejects as `createKernel` and the server's `start` do. */
export function createApp(config: ServeConfig, options: KernelOptions): Promise<App> {
  return startApp(loadServer(config), config, options, httpRoutes(countedBy(config)));
}

export async function createRenewableApp(
  config: ServeConfig,
  options: KernelOptions,
): Promise<RenewableApp<RunningConfig>> {
  const reusable = await createReusableParts(config, options);
  return startApp(loadServer(config), config, options, httpRoutes(countedBy(config)), reusable).catch((why) => {
    reusable.close();
    throw why;
  });
}

/** Starts any server. `routes`: routes whose HTTP requests are counted. `reusable`: given if the app will begin anew. */
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
    url,
    tritonUrl,
    http2Url,
    otherUrls = {},
    handle,
    banner,
    idleWork = [],
    drain,
    turnTo,
    stop,
  } = await server.start(first).catch(async (why) => {
    await first.lifecycle.close();
    throw why;
  });
  let stopIdleWork = () => {};
  return {
    url,
    tritonUrl,
    http2Url,
    otherUrls,
    handle,
    ...(banner ? { banner } : {}),
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
      // The server looks first: when the time is over, the kernel aborts what still runs, and the server would see nothing left.
      const why = await drain?.(untilUs);
      await lifecycle.drain(untilUs);
      await Promise.race([stopped, pause(clock, FLUSH_US)]);
      await stop(true);
      await lifecycle.close();
      reusable?.close();
      return why;
    },
  };
}
