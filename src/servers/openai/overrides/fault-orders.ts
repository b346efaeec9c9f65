/**
 * Which answers are disturbed, and by which plan (docs/reference/faults.md)? What the request orders, or its fixture; else a rule of
 * `--fault-plan`; else one fault by chance (`--fault-rate`). Plans and what performs them are loaded when first wanted.
 */
import type { SubstituteAnswer } from "../../../faults/instead.ts";
import type { FaultCarrier, Plan } from "../../../faults/plan/types.ts";
import type { Question } from "../../../text/canned/fixtures/match.ts";
import type { Context, DisturbedAnswer, FaultOrder } from "../../../wire/http/sink.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { badRequest, faultNotAllowed, noConnection } from "../request/errors.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import { disturbsAny, type Ordering } from "./orders.ts";

/** Requests whose attempts are counted; the oldest is forgotten. */
const KEYS_MOST = 10_000;

/** Hears of the faults that acted on answers. */
export interface FaultCounts {
  /** Called once per answer and fault, with the fault's id. */
  faulted(id: string): void;
  /** Called with the bytes that disturbing an answer left as garbage. Absent: nobody collects it. */
  readonly consumed?: (bytes: number) => void;
}

/** An answer that may be disturbed. */
export interface FaultSubject {
  /** As the request orders it; "": it does not. */
  readonly fault: string;
  /** The order may reach others. */
  readonly trusted: boolean;
  /** Requests that are being served besides. */
  readonly open: number;
  header(name: string): string | null;
  /** Path and query. */
  readonly target: string;
  readonly over: FaultCarrier;
  /** The request as rules see it. */
  question(): Question;
}

/** How it is disturbed; `instead`: it is another one. */
export interface ChosenFaults extends FaultOrder {
  readonly instead: SubstituteAnswer | null;
}

export class FaultOrders {
  readonly #kernel: OpenAiKernel;
  readonly #counts: FaultCounts;
  /** Requests that a plan may have disturbed. */
  #ordinal = 0;
  readonly #attempts = new Map<string, number>();

  constructor(kernel: OpenAiKernel, counts: FaultCounts) {
    this.#kernel = kernel;
    this.#counts = counts;
  }

  /**
   * null: nothing disturbs the answer. Else, when the plan is in place, what the request is answered with in place of the
   * server's own answer, or null. `open`: requests that are being served besides; `question`: the request as rules see it.
   */
  of(
    context: Context,
    { fault, trusted }: Ordering,
    open: number,
    question: () => Question,
  ): Promise<ErrorAnswer | null> | null {
    const { request } = context;
    const found = this.disturbance({
      fault,
      trusted,
      open,
      question,
      header: (name) => request.headers.get(name),
      get target() {
        const { pathname, search } = new URL(request.url);
        return pathname + search;
      },
      get over() {
        return context.front.version(request) === "2" ? "2" : "1.1";
      },
    });
    return found && this.#disturb(context, found);
  }

  async #disturb(context: Context, found: Promise<ChosenFaults | ErrorAnswer | null>): Promise<ErrorAnswer | null> {
    const disturbance = await found;
    if (disturbance === null || "body" in disturbance) return disturbance;
    const front = context.front;
    if (front.disturb === undefined) return noConnection;
    await front.disturb(context.request, disturbance);
    if (disturbance.instead === null) return null;
    const { status, headers, body } = disturbance.instead;
    return { status, headers, body, asItIs: !body.startsWith('{"error":{') };
  }

  /** True if an answer may be disturbed whose request orders nothing. */
  get some(): boolean {
    return disturbsAny(this.#kernel);
  }

  /** null: nothing disturbs the answer, at once or when the plan is known. An error: the order is none. */
  disturbance(subject: FaultSubject): Promise<ChosenFaults | ErrorAnswer | null> | null {
    const { live, text } = this.#kernel;
    const rate = live.values.faults.get().faultRate ?? 0;
    const { fault, trusted } = subject;
    if (fault === "" && !this.some) return null;
    const key = subject.header("x-request-id") ?? `${this.#ordinal++}`;
    if (fault !== "") return this.#planned(subject, fault, trusted, key);
    const ruled = text.canned.faultRules?.planFor(subject.question(), key) ?? null;
    return ruled === null && rate === 0 ? null : this.#planned(subject, ruled, true, key);
  }

  async #planned(
    subject: FaultSubject,
    /** A line; or a rule's plan; null: one by chance. */
    ordered: string | Plan | null,
    trusted: boolean,
    key: string,
  ): Promise<ChosenFaults | ErrorAnswer | null> {
    const { BrokenPlan, substituteAnswer, parsePlan, planByChance, reachesOthers } = await import(
      "../../../faults/order.ts"
    );
    const { config, live, time, truth } = this.#kernel;
    let plan: Plan | null;
    try {
      const { faultRate = 0, faultTypes = [] } = live.values.faults.get();
      const { seed } = config.engine;
      if (typeof ordered === "string") plan = parsePlan(ordered);
      else
        plan =
          ordered ?? planByChance(faultRate / 100, faultTypes, seed, key, subject.over === "grpc" ? "grpc" : "1.1");
    } catch (error) {
      if (error instanceof BrokenPlan) return badRequest(`understudy: ${error.message}`, "understudy");
      throw error;
    }
    if (plan === null) return null;
    const { over, open, target } = subject;
    if (!trusted && plan.faults.some((fault) => reachesOthers(fault, over !== "1.1"))) return faultNotAllowed;
    const { consumed } = this.#counts;
    const witness = truth.faultWitness?.(key);
    const told = (answer: DisturbedAnswer) => {
      for (const { id, times } of answer.account.fired) if (times > 0) this.#counts.faulted(id);
      witness?.told(answer);
    };
    const before = this.#attempt(subject.header("x-request-id") ?? subject.header("authorization") ?? "", plan);
    const instead = substituteAnswer(plan, { before, open, target, epochSeconds: time.epochSeconds() });
    if (instead !== null) this.#counts.faulted(instead.id);
    return {
      ...{ plan, key, told, isBrief: !witness, instead },
      ...(witness?.sent ? { sent: witness.sent } : {}),
      ...(consumed ? { consumed } : {}),
    };
  }

  /** How often this request was attempted; after the last failure that its plan wants the count begins again. */
  #attempt(key: string, { faults }: Plan): number {
    const fails = faults.find(({ row }) => row.id === "A5");
    if (fails === undefined) return 0;
    const before = this.#attempts.get(key) ?? 0;
    this.#attempts.delete(key);
    if (before < (fails.values.times as number)) this.#attempts.set(key, before + 1);
    if (this.#attempts.size > KEYS_MOST) this.#attempts.delete(this.#attempts.keys().next().value!);
    return before;
  }
}
