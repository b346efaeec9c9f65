/** Delays the abort of a request whose client has left, because trtllm-serve looks for disconnected clients once a second. */
import type { Backend } from "../../kernel/backend.ts";

const LOOK_US = 1_000_000;

/** Wraps a backend so that a cancelled generation runs until the next full second after its arrival. */
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
