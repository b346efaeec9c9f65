/** Defines the options of `understudy health` in one table. */

import { freeText, inGroup, onlyOn, row, seconds } from "../options/option.ts";
import { optionsHelp, type ValuesOf } from "../options/take-options.ts";

const duration = seconds(0, 86_400, "a duration up to 24h, as in 500ms, 30s or 2m");

export const healthOptions = inGroup("", {
  wait: row("Ask again until the server is ready, for at most this time.", { ...duration, default: "0s" }),
  timeout: row("Longest time of one request.", {
    ...seconds(0.01, 3600, "a duration from 10ms to 1h, as in 500ms or 5s"),
    default: "5s",
  }),
  model: row("Also require that the server serves this model.", freeText("NAME", "the name of a model")),
  "api-key": row("Key for the list of models, if the server asks for one.", freeText("KEY", "the server's key")),
  insecure: row("Accept any certificate.", onlyOn),
  "ssl-ca-certs": row("Certificates to trust.", { ...freeText("FILE", "a file"), default: "the system's" }),
});

export type HealthValues = ValuesOf<typeof healthOptions>;

/** URL that is asked if the user gives none: understudy serve, vLLM, Triton and trtllm-serve listen on this port by default. */
export const DEFAULT_URL = "http://127.0.0.1:8000";

export const healthHelp = (): string => `understudy health [URL] [options]

Reports whether an Understudy server, a vLLM, a Triton or a trtllm-serve is ready, in one line and by the exit code. Use it
for HEALTHCHECK, Compose, exec probes and shell scripts. URL is the HTTP address of the server, ${DEFAULT_URL} by default.

${optionsHelp(healthOptions)}

Exit code: 0 ready, 1 not ready, 2 wrong usage.`;
