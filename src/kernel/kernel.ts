/**
 * The kernel: what each server receives when it starts. It knows no API. A group of members has the name of its owner.
 * `create-kernel.ts` builds it. `test/kernel/fourth-server.test.ts` is a small server over it. Types only.
 */

import type { Clock } from "../base/clock.ts";
import type { LiveValue } from "../base/live-value.ts";
import type { Ids, Random } from "../base/random.ts";
import type { Fleet } from "../engine/fleet.ts";
import type { AdapterName } from "../engine/interface/cache-records.ts";
import type { Snapshot } from "../engine/interface/types.ts";
import type { Iterations } from "../engine/iterations.ts";
import type { Journal } from "../engine/journal.ts";
import type { KvEvents } from "../kv-events/kv-events.ts";
import type { Renderer } from "../metrics/renderer.ts";
import type { Identity } from "../metrics/rows/identity.ts";
import type { NaturalLength } from "../text/answers/answers.ts";
import type { CannedAnswers } from "../text/canned/canned-answers.ts";
import type { AnswerRules } from "../text/canned/fixtures/match.ts";
import type { TextModel } from "../text/text-model.ts";
import type { TruthLog } from "../truth/log.ts";
import type { RecentRows } from "../truth/recent.ts";
import type { FaultWitness } from "../wire/http/sink.ts";
import type { Accounting, HttpAccounts } from "./accounting.ts";
import type { Backend } from "./backend.ts";
import type { Gaps } from "./gaps.ts";
import type { KernelConfig } from "./kernel-config.ts";
import type { Admin, LiveSettings } from "./live-settings.ts";
import type { Marks } from "./marks.ts";
import type { Place } from "./place.ts";
import type { RequestHistory } from "./request-history.ts";
import type { StreamWrites } from "./stream-writes.ts";

/** `C`: the configuration that the server reads. */
export interface Kernel<C extends KernelConfig = KernelConfig> {
  /** The configuration without the values that `/admin/config` changes, which `live` has. */
  readonly config: C;
  readonly live: LiveSettings;
  /** Writes a line to the log of the server. */
  readonly log: (line: string) => void;
  /** Takes generations to the engines, and tells the time of their clock. */
  readonly backend: Backend;
  readonly engines: KernelEngines;
  readonly time: KernelTime;
  readonly chance: KernelChance;
  readonly text: KernelText;
  readonly truth: KernelTruth;
  readonly metrics: KernelMetrics;
  readonly pressure: KernelPressure;
  readonly lifecycle: KernelLifecycle;
}

/** The engines of this process. */
export interface KernelEngines {
  readonly fleet: Fleet;
  /** The last calls of each core, by engine. A crash is reproduced from them. */
  readonly journals: readonly Journal[];
  /** Records of iterations and requests. null without `config.iterations`. */
  readonly iterations: Iterations | null;
  /** Publishes changes of the prefix caches. null: nothing is published. */
  readonly kvEvents: KvEvents | null;
  /**
   * Finds the LoRA adapters that KV events name, by number from 1. A server that loads adapters at run time replaces the
   * function.
   */
  readonly adapters: { byNumber: (number: number) => AdapterName | null };
  /** Mode in which events of streams are written, with the reason for it. */
  readonly streamWrites: StreamWrites;
  /** False once a script has killed the engines. */
  readonly alive: LiveValue<boolean>;
  /** Resolves some seconds after a script has killed the engines. */
  readonly died: Promise<void>;
}

/** Clocks. No other code of a server reads the time of the machine. */
export interface KernelTime {
  /** Microseconds since its own 0. Its alarms end with this kernel. */
  readonly clock: Clock;
  /** The clock for listeners, which outlive this kernel when the server begins anew. */
  readonly lastingClock: Clock;
  /** Seconds since 1970. */
  readonly epochSeconds: () => number;
  /** Microseconds since 1970 at the clock's 0. */
  readonly epochUs: number;
}

/** Random values. With `--seed` they repeat from one start to the next, in the order of requests. */
export interface KernelChance {
  /** Makes the digits of every id that an answer carries. */
  readonly newId: Ids;
  /** Makes 32-bit seeds for requests that bring none. */
  readonly nextSeed: Random;
}

/** The text of prompts and answers. */
export interface KernelText {
  /** The vocabulary with its encoder and chat template. */
  readonly model: TextModel;
  /** Scripts, fixtures, dataset and fault rules that the operator prepared. */
  readonly canned: CannedAnswers;
  /** Reads a folder of fixtures again. Rejects with a `UserError` if it cannot be used. */
  readonly openCanned: (files: { readonly fixtures: string }) => Promise<CannedAnswers>;
  /** Answers of the program that runs this server. They win over all other ordered answers. */
  readonly rules: AnswerRules | undefined;
  /** Returns the token at which an answer with a given seed ends by itself. */
  readonly naturalLength: NaturalLength;
}

/** Records of the requests as they really happened, with which tests compare. */
export interface KernelTruth {
  /** The file of `--truth-log`. null: none is written. */
  readonly log: TruthLog | null;
  /** The last requests for `/understudy/requests`. null: none are kept. */
  readonly recent: RecentRows | null;
  /** The requests as clients sent them. undefined: they are not kept. */
  readonly history: RequestHistory | undefined;
  /** Returns the observer of an answer that faults disturb, by the key of its draws. undefined: nobody observes. */
  readonly faultWitness: ((key: string) => FaultWitness) | undefined;
}

/** Counts, and the pages that show them. */
export interface KernelMetrics {
  readonly renderer: Renderer;
  /** Labels and constants of the pages. */
  readonly identity: Identity;
  /** Copies all numbers. */
  snapshot(): Snapshot;
  /** Counts each request that asks for a generation once, by its outcome. */
  readonly accounting: Accounting;
  /** Counts each HTTP request by its route. */
  readonly httpAccounts: HttpAccounts;
}

/** Long work and garbage, which wait for a gap between two steps. */
export interface KernelPressure {
  /** Notes the work of this thread, so that late steps find their cause. */
  readonly marks: Marks;
  readonly gaps: Gaps;
}

/** The place of this process in the server, and its end. */
export interface KernelLifecycle {
  /** undefined: the only process of the server. */
  readonly place: Place | undefined;
  /** undefined: nobody changes the server while it runs. */
  readonly admin: Admin | undefined;
  /** Waits until no generation runs, at most until `untilUs`. Then ends the rest with reason abort. */
  drain(untilUs: number): Promise<void>;
  /** Ends all parts. The listeners must be closed before. */
  close(): Promise<void>;
}
