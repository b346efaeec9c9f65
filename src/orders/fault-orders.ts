/**
 * Which answers are disturbed, and by which plan (docs/faults.md)? What the request orders, or its fixture; else a rule of
 * `--fault-plan`; else one fault by chance (`--fault-rate`). Plans and what performs them are loaded when first wanted.
 */
import type { WireConfig } from "../config/types.ts";
import type { Question } from "../content/fixtures/match.ts";
import type { Plan } from "../faults/types.ts";
import type { OpenAiOptions } from "../front/front.ts";
import { frontOf } from "../http/front-of.ts";
import type { Context, DisturbedAnswer } from "../http/sink.ts";
import { badRequest, faultNotAllowed, noConnection } from "../python/errors.ts";
import type { ErrorAnswer } from "../python/request.ts";
import type { Ordering } from "./orders.ts";

/** Requests whose attempts are counted; the oldest is forgotten. */
const KEYS_MOST = 10_000;

export class FaultOrders {
  readonly #options: OpenAiOptions;
  /** Looked at for each request: it may change. */
  readonly #wire: WireConfig;
  /** Requests that a plan may have disturbed. */
  #ordinal = 0;
  readonly #attempts = new Map<string, number>();

  constructor(options: OpenAiOptions) {
    this.#options = options;
    this.#wire = options.config.wire ?? {};
  }

  /** Whether a plan may disturb answers that order none themselves. */
  get disturbs(): boolean {
    return this.#options.faultRules !== undefined || (this.#wire.faultRate ?? 0) !== 0;
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
    const { faultRules } = this.#options;
    if (fault === "" && !this.disturbs) return null;
    const key = context.request.headers.get("x-request-id") ?? `${this.#ordinal++}`;
    if (fault !== "") return this.#disturb(context, fault, trusted, open, key);
    const ruled = faultRules?.planFor(question(), key) ?? null;
    return ruled === null && (this.#wire.faultRate ?? 0) === 0 ? null : this.#disturb(context, ruled, true, open, key);
  }

  async #disturb(
    context: Context,
    /** A line; or a rule's plan; null: one by chance. */
    ordered: string | Plan | null,
    trusted: boolean,
    open: number,
    key: string,
  ): Promise<ErrorAnswer | null> {
    const { BrokenPlan, insteadOf, parsePlan, planByChance, reachesOthers } = await import("../faults/order.ts");
    const { request } = context;
    let plan: Plan | null;
    try {
      const { faultRate = 0, faultTypes = [] } = this.#wire;
      const { seed } = this.#options.config.engine;
      if (typeof ordered === "string") plan = parsePlan(ordered);
      else plan = ordered ?? planByChance(faultRate / 100, faultTypes, seed, key);
    } catch (error) {
      if (error instanceof BrokenPlan) return badRequest(`understudy: ${error.message}`, "understudy");
      throw error;
    }
    if (plan === null) return null;
    const front = frontOf(context);
    const http2 = front.version(request) === "2";
    if (!trusted && plan.faults.some((fault) => reachesOthers(fault, http2))) return faultNotAllowed;
    if (front.disturb === undefined) return noConnection;
    const { accounting, faultWitness } = this.#options;
    const witness = faultWitness?.(key);
    const told = (answer: DisturbedAnswer) => {
      for (const { id, times } of answer.account.fired) if (times > 0) accounting.faulted?.(id);
      witness?.told(answer);
    };
    await front.disturb(request, { plan, key, told, ...(witness?.sent ? { sent: witness.sent } : {}) });
    const before = this.#attempt(
      request.headers.get("x-request-id") ?? request.headers.get("authorization") ?? "",
      plan,
    );
    const epochSeconds = this.#options.epochSeconds();
    const { pathname, search } = new URL(request.url);
    const instead = insteadOf(plan, { before, open, target: pathname + search, epochSeconds });
    if (instead === null) return null;
    accounting.faulted?.(instead.id);
    const { status, headers, body } = instead;
    return { status, headers, body, asItIs: !body.startsWith('{"error":{') };
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
