/** Can the plain tokens of a step leave by one native call here? Found out by trying. */
import type { NativeWrite } from "../../engine/interface/lanes.ts";

type Found = NativeWrite | { readonly refused: string };

const SOURCE = new URL("./lanes.c", import.meta.url);

let here: Promise<Found> | null = null;

/** The call, or why there is none; found out once in a process. */
export function nativeLanes(): Promise<Found> {
  here ??= triedLanes();
  return here;
}

/** `platform` as Node names it; `source`: a file of C. */
export async function triedLanes(platform: string = process.platform, source = SOURCE): Promise<Found> {
  // Linux: values of flags and the name for errno are not those of other systems.
  if (platform !== "linux") return { refused: `there is none for ${platform}` };
  try {
    const { cc } = await import("bun:ffi");
    const { symbols } = cc({
      source,
      symbols: {
        write_rows: { args: ["ptr", "ptr", "ptr", "ptr", "ptr", "ptr"], returns: "i32" },
        try_send: { args: [], returns: "i32" },
      },
    });
    const errno = symbols.try_send();
    return errno === 0 ? symbols.write_rows : { refused: `send fails with errno ${errno}` };
  } catch (error) {
    const [line] = String(error instanceof Error ? error.message : error).split("\n");
    return { refused: `bun:ffi cannot compile it (${line})` };
  }
}
