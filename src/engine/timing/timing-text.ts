/** Describes step times in one line for users: in the server's banner and in replay reports. */
import type { StepPacing } from "../config/engine-config.ts";
import type { Timing } from "../config/step-times.ts";

/** Returns the preset's name or the formula, and the noise. */
export const timingText = (pace: StepPacing): string => kindText(pace.timing) + strayText(pace);

const ms = (us: number) => `${us / 1000} ms`;

function strayText({ timing, noise = {}, speed = 1 }: StepPacing): string {
  const overheadUs = timing.kind === "linear" || timing.kind === "table" ? (timing.requestOverheadUs ?? 0) : 0;
  const { jitterSigma, overheadSigma, tail, pause } = noise;
  return [
    overheadUs > 0 ? `, ${ms(overheadUs)} a request before the queue` : "",
    jitterSigma ? `, jitter ${jitterSigma}` : "",
    overheadSigma ? `, jitter ${overheadSigma} before the queue` : "",
    tail ? `, Pareto tail of ${tail.share} with exponent ${tail.alpha}` : "",
    pause ? `, a pause of ${ms(pause.forUs)} every ${pause.everyUs / 1e6} s` : "",
    speed === 1 ? "" : `, ${speed} times as fast`,
  ].join("");
}

function kindText(timing: Timing): string {
  switch (timing.kind) {
    case "none":
      return "none: as fast as the machine";
    case "constant":
      return `constant: TTFT ${ms(timing.ttftUs)}, ITL ${ms(timing.itlUs)}`;
    case "linear":
      return `linear: ${ms(timing.baseUs)} a step, ${ms(timing.prefillUs)} a prompt token, ${ms(timing.decodeUs)} a sequence`;
    case "table":
      return `preset ${timing.name}`;
  }
}
