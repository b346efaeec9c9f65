/** When does the engine hear that a client has left? The server looks once a second, from the request's arrival on. */
import type { Backend } from "../../kernel/backend.ts";

const LOOK_US = 1_000_000;

/** A backend whose generations go on until that look. */
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
