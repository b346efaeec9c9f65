/** A client of `understudy stress` that stays alive (understudy-client/1): reads a case per line, writes what it saw. */
import { createInterface } from "node:readline";

export const hello = [{ role: "user", content: "Say it" }];

/** What an answer has said so far, and stays what it said where an error ends it. */
class Seen {
  text = "";
  finish = null;
  usage = null;
  #calls = new Map();

  /** A chunk of OpenAI's chat. */
  chunk({ choices, usage }) {
    if (usage) this.usage = { prompt: usage.prompt_tokens, completion: usage.completion_tokens };
    for (const choice of choices ?? []) {
      if ((choice.index ?? 0) !== 0) continue;
      this.text += choice.delta?.content ?? "";
      for (const call of choice.delta?.tool_calls ?? [])
        this.call(call.index, call.function?.name, call.function?.arguments);
      this.finish = choice.finish_reason || this.finish;
    }
  }

  /** A piece of a call. A name that comes again is the same name; arguments may be an object. */
  call(index, name, args) {
    const known = this.#calls.get(index) ?? { name: "", arguments: "" };
    const more = typeof args === "object" && args !== null ? JSON.stringify(args) : (args ?? "");
    const whole = name === known.name ? name : known.name + (name ?? "");
    this.#calls.set(index, { name: whole, arguments: known.arguments + more });
  }

  /** `isOwn`: whether an error is of the client's own kind. */
  line(error, isOwn) {
    const { text, finish, usage } = this;
    const calls = [...this.#calls.values()];
    const kind = error?.constructor?.name ?? typeof error;
    const said = error && { kind, message: String(error.message ?? error).slice(0, 300), own: isOwn(error) };
    return { text, finish, usage, toolCalls: calls.length > 0 ? calls : null, error: said ?? null };
  }
}

/** `ask(asked, seen)` asks once, and fills in what it sees. */
export async function run(ask, isOwn) {
  // A request that is given up may fail once more, behind everybody's back.
  process.on("unhandledRejection", () => {});
  for await (const line of createInterface({ input: process.stdin })) {
    const seen = new Seen();
    const error = await ask(JSON.parse(line), seen).then(
      () => null,
      (why) => why ?? new Error("nothing was thrown"),
    );
    process.stdout.write(`${JSON.stringify(seen.line(error, isOwn))}\n`);
  }
}
