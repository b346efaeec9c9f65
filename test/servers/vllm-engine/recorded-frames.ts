/** Reads the recorded messages between vLLM 0.33.0's front ends and an engine, in test/golden/engine-core-0.33. */
import { readdirSync, readFileSync } from "node:fs";

const folder = new URL("../../golden/engine-core-0.33/cases/", import.meta.url).pathname;

export interface RecordedMessage {
  /** Name of the case and of the message, for the name of a test. */
  readonly name: string;
  readonly isFromEngine: boolean;
  readonly socket: "handshake" | "input" | "output";
  readonly frames: readonly Buffer[];
  /** The MessagePack frame as JSON, or null for the word of a dead engine. */
  readonly decoded: unknown;
}

/** Returns all messages of all cases. */
export const RECORDED: readonly RecordedMessage[] = readdirSync(folder)
  .sort()
  .flatMap((file) => {
    const { messages } = JSON.parse(readFileSync(folder + file, "utf8"));
    return messages.map((message: Record<string, string & readonly string[]>, at: number) => ({
      name: `${file.replace(".json", "")} ${at} ${message.label}`,
      isFromEngine: message.dir === "engine->front",
      socket: message.socket,
      frames: message.frames!.map((hex: string) => Buffer.from(hex, "hex")),
      decoded: message.decoded,
    }));
  });

/** Returns the frame with MessagePack: after the type byte in a message to an engine's input, else the first one. */
export const bodyOf = ({ isFromEngine, socket, frames }: RecordedMessage): Buffer =>
  frames[socket === "input" && !isFromEngine ? 1 : 0]!;
