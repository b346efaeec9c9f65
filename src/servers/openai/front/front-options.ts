/** What does a front of OpenAI's routes find among the parts, and which routes of ours stand beside it? */

import { Cause } from "../../../engine/lateness/causes.ts";
import { aboutOf } from "../../../kernel/engines.ts";
import type { Parts } from "../../../kernel/parts.ts";
import { METRICS_METHODS } from "../../../metrics/route.ts";
import { faultLines } from "../../../truth/fault-lines.ts";
import { Peers } from "../../../truth/peers.ts";
import { TRUTH_METHODS, truthRoutes } from "../../../truth/routes.ts";
import type { AnswersConfig, OpenAiParts } from "../request/openai-config.ts";
import { ADMIN_METHODS } from "./admin-routes.ts";
import { type Access, accessLine, type OpenAiOptions } from "./front.ts";

/** `metrics`: paths of pages of metrics. */
export function frontOptions(parts: OpenAiParts, metrics = METRICS_METHODS): OpenAiOptions {
  const { config, live, admin, text, laid, log } = parts;
  const { answers, front } = config.openai;
  const { logsAccess, logsRequests } = live.values;
  const logAccess = (access: Access) => log(accessLine(access));
  return {
    ...text,
    config,
    live: live.values,
    backend: parts.backend,
    accounting: parts.accounting,
    httpAccounting: parts.httpAccounts,
    ...(parts.truth ? { faultWitness: faultLines(parts.truth, config.truth.log?.wire === true) } : {}),
    ...laid,
    ...(admin ? { fixtures: live.following(laid.fixtures) } : {}),
    adaptersLoaded: (names) => parts.renderer.name(names),
    responseRole: answers.responseRole ?? "assistant",
    trackServerLoad: front.trackServerLoad === true,
    ...fingerprint(answers),
    accessLog: { get: () => (logsAccess.get() ? logAccess : null) },
    requestLog: { isOn: logsRequests, write: log },
    schemaNotice: firstOnly((why) =>
      log(`a JSON Schema in a prompt was answered with prose (later ones silently): ${why}`),
    ),
    epochSeconds: parts.epochSeconds,
    newId: parts.newId,
    naturalLength: parts.naturalLength,
    nextSeed: parts.nextSeed,
    alive: parts.alive,
    ...(parts.rules ? { rules: parts.rules } : {}),
    ...(parts.history ? { witness: parts.history } : {}),
    otherRoutes: {
      ...metrics,
      ...TRUTH_METHODS,
      ...(admin ? ADMIN_METHODS : {}),
    },
  };
}

/** Passes the first text on, and no other one. */
function firstOnly(say: (text: string) => void): (text: string) => void {
  let said = false;
  return (text) => {
    if (!said) say(text);
    said = true;
  };
}

function fingerprint({ fingerprintMode, fingerprintValue }: AnswersConfig): { readonly fingerprint?: string | null } {
  if (fingerprintMode === "none") return { fingerprint: null };
  return fingerprintMode === "custom" ? { fingerprint: fingerprintValue ?? "" } : {};
}

/** The truth about requests and steps. */
export function truthOf({ config, place, recent, marks, gaps, clock, history, epochUs }: Parts) {
  return truthRoutes({
    recent,
    about: aboutOf(config, place, epochUs),
    spare: () => gaps.pieces.pass(),
    worked: (work) => marks.timed(Cause.Truth, work),
    sent: (config.truth.keepBodies && history) || null,
    peers: place ? new Peers(place.pages.files[0]!, place.index, place.workers, clock) : null,
  });
}
