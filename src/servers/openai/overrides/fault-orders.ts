/**
 * Chooses the plan of faults that disturbs an answer (docs/reference/faults.md). The plan that the request or its fixture orders
 * comes first, then that of a rule in `--fault-plan`, then one fault by chance (`--fault-rate`). Loads the code of faults at the
 * first use.
 */
import { resultOrError } from "../../../base/result-or-error.ts";
import type { SubstituteAnswer } from "../../../faults/instead.ts";
import type { FaultCarrier, Plan } from "../../../faults/plan/types.ts";
import type { Question } from "../../../text/canned/fixtures/match.ts";
import type { Context, DisturbedAnswer, FaultOrder } from "../../../wire/http/sink.ts";
import type { ErrorAnswer } from "../../pydantic/refusals.ts";
import { badRequest, faultNotAllowed, noConnection } from "../request/errors.ts";
import type { OpenAiKernel } from "../request/openai-config.ts";
import { type AnswerOrders, disturbsAny } from "./orders.ts";

/** Most requests whose attempts are counted. The oldest one is forgotten first. */
const KEYS_MOST = 10_000;

/** Counts the effects of faults. */
interface FaultCounts {
  /** Counts an answer that a fault acted on. `id`: of the fault. */
  faulted(id: string): void;
  /** Counts the bytes of garbage from disturbing an answer. Absent: they are not counted. */
  readonly consumed?: (bytes: number) => void;
}

/** An answer that may be disturbed. */
interface FaultSubject {
  /** Text of the ordered plan. "": none is ordered. */
  readonly fault: string;
  /** True if the plan may affect other requests. */
  readonly trusted: boolean;
  /** Number of other requests being served. */
  readonly open: number;
  header(name: string): string | null;
  /** Path and query of the request. */
  readonly target: string;
  /** Protocol of the answer. */
  readonly over: FaultCarrier;
  /** Returns the request in the form that rules match. */
  question(): Question;
}

/** The faults of an answer. */
export interface ChosenFaults extends FaultOrder {
  /** An answer that replaces the server's own. Null: the server's own one is disturbed. */
  readonly instead: SubstituteAnswer | null;
}

export class FaultOrders {
  /** Number of requests without an id so far. It seeds their faults. */
  #ordinal = 0;
  readonly #attempts = new Map<string, number>();

  constructor(
    private readonly kernel: OpenAiKernel,
    private readonly counts: FaultCounts,
  ) {}

  /**
   * Sets up the faults of an answer over HTTP. Returns null if nothing disturbs it. Otherwise resolves when the faults are in
   * place, with the answer that replaces the server's own, or null. `open`: number of other requests being served. `question`:
   * returns the request in the form that rules match.
   */
  of(
    context: Context,
    { fault, trusted }: AnswerOrders,
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

  /** True if answers may be disturbed although their requests order nothing. */
  get some(): boolean {
    return disturbsAny(this.kernel);
  }

  /** Returns the faults of an answer, or null for none. Resolves with an error if the order is invalid or not allowed. */
  disturbance(subject: FaultSubject): Promise<ChosenFaults | ErrorAnswer | null> | null {
    const { live, text } = this.kernel;
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
    /** The text of an order, or the plan of a rule. Null: one fault is drawn. */
    ordered: string | Plan | null,
    trusted: boolean,
    key: string,
  ): Promise<ChosenFaults | ErrorAnswer | null> {
    const { BrokenPlan, substituteAnswer, parsePlan, planByChance, reachesOthers } = await import(
      "../../../faults/order.ts"
    );
    const { config, live, time, truth } = this.kernel;
    const { over, open, target } = subject;
    const byChance = () => {
      const { faultRate = 0, faultTypes = [] } = live.values.faults.get();
      return planByChance(faultRate / 100, faultTypes, config.engine.seed, key, over === "grpc" ? "grpc" : "1.1");
    };
    const plan = resultOrError(BrokenPlan, () =>
      typeof ordered === "string" ? parsePlan(ordered) : (ordered ?? byChance()),
    );
    if (plan instanceof BrokenPlan) return badRequest(`understudy: ${plan.message}`, "understudy");
    if (plan === null) return null;
    if (!trusted && plan.faults.some((fault) => reachesOthers(fault, over !== "1.1"))) return faultNotAllowed;
    const { consumed } = this.counts;
    const witness = truth.faultWitness?.(key);
    const told = (answer: DisturbedAnswer) => {
      for (const { id, times } of answer.account.fired) if (times > 0) this.counts.faulted(id);
      witness?.told(answer);
    };
    const before = this.#attempt(subject.header("x-request-id") ?? subject.header("authorization") ?? "", plan);
    const instead = substituteAnswer(plan, { before, open, target, epochSeconds: time.epochSeconds() });
    if (instead !== null) this.counts.faulted(instead.id);
    return {
      ...{ plan, key, told, isBrief: !witness, instead },
      ...(witness?.sent ? { sent: witness.sent } : {}),
      ...(consumed ? { consumed } : {}),
    };
  }

  /** Returns the number of earlier attempts of a request. Starts again at 0 after the failures that its plan wants. */
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
