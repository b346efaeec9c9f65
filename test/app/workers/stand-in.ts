/** Runs as a worker in tests of the supervisor. The `seed` of its configuration selects its behaviour. */
import type { ToWorker } from "../../../src/app/workers/messages.ts";

const BEHAVIOURS = ["serves", "refuses", "traps", "dies at once", "dies at the start", "is deaf"] as const;
export type Behaviour = (typeof BEHAVIOURS)[number];
export const seedOf = (behaviour: Behaviour) => BEHAVIOURS.indexOf(behaviour);

if (import.meta.main) {
  const say = (message: object) => new Promise<void>((done) => void process.send!(message, () => done()));
  let deaf = false;
  process.on("message", async (message: ToWorker) => {
    if ("start" in message) {
      const behaviour = BEHAVIOURS[message.start.config.engine.seed]!;
      deaf = behaviour === "is deaf";
      if (behaviour === "dies at the start") process.exit(1);
      if (behaviour === "refuses") {
        await say({ refused: "nobody may listen there", code: "EADDRINUSE" });
        process.exit(2);
      }
      await say({ listening: "http://127.0.0.1:1" });
      if (behaviour === "traps") process.exit(70);
      if (behaviour === "dies at once") process.exit(1);
    } else if ("order" in message) {
      const { command, order } = message;
      await say({ did: order, answer: command.name !== "resetPrefixCache" });
    } else if ("end" in message && !deaf) {
      await say({ ended: 3 });
      process.exit(0);
    }
  });
  process.on("disconnect", () => process.exit(0));
}
