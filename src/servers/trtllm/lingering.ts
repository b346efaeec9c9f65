/**
 * Delays the abort of a request whose client has left, because trtllm-serve checks only once a second for disconnected clients.
 */
import type { Backend } from "../../kernel/backend.ts";

const LOOK_US = 1_000_000;

/** Wraps a backend so that a canceled generation continues until a whole number of seconds has passed since its arrival. */
export function lingering(backend: Backend): Backend {
  return {
    ...backend,
    submit(generation, receiver) {
      const taken = backend.submit(generation, receiver);
      if ("refused" in taken) return taken;
      const cancel = taken.cancel.bind(taken);
      taken.cancel = () => {
        const sinceUs = backend.nowUs() - generation.arrivalUs;
        backend.after!(LOOK_US - (sinceUs % LOOK_US), cancel);
      };
      return taken;
    },
  };
}
