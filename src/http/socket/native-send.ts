/** Can the sends of a step be one native call here? Found out by trying, once at the start. */
import type { NativeSend } from "./send-batch.ts";

const SOURCE = new URL("./send-batch.c", import.meta.url);

/** The call, or why there is none. `platform` as Node names it; `source`: a file of C. */
export async function nativeSend(
  platform: string = process.platform,
  source = SOURCE,
): Promise<NativeSend | { readonly refused: string }> {
  // Linux: values of flags and the name for errno are not those of other systems.
  if (platform !== "linux") return { refused: `there is none for ${platform}` };
  try {
    const { cc } = await import("bun:ffi");
    const { symbols } = cc({
      source,
      symbols: {
        send_batch: { args: ["ptr", "ptr", "i32"], returns: "i32" },
        try_send: { args: [], returns: "i32" },
      },
    });
    const errno = symbols.try_send();
    return errno === 0 ? symbols.send_batch : { refused: `send fails with errno ${errno}` };
  } catch (error) {
    const [line] = String(error instanceof Error ? error.message : error).split("\n");
    return { refused: `bun:ffi cannot compile it (${line})` };
  }
}
