/** Compiles the native code that sends the plain tokens of a step with one call, and tries whether it works here. */
import { closeSync, readFileSync, writeSync } from "node:fs";
import { LANE_MACROS, type NativeWrite } from "../../engine/interface/lanes.ts";

type NativeLanes = NativeWrite | { readonly refused: string };

const SOURCE = new URL("./lanes.c", import.meta.url);

let tried: Promise<NativeLanes> | null = null;

/** Returns the native call, or the reason why it is not available. Tried once per process. */
export function nativeLanes(): Promise<NativeLanes> {
  tried ??= tryLanes();
  return tried;
}

/** Compiles and tries `source`, a C file. `platform`: as Node names it. */
export async function tryLanes(platform: string = process.platform, source = SOURCE): Promise<NativeLanes> {
  // The C code contains Linux's values of flags and its name for errno.
  if (platform !== "linux") return { refused: `no native code for ${platform}` };
  let file: number | null = null;
  try {
    const { cc } = await import("bun:ffi");
    if (Bun.isStandaloneExecutable) file = await copyInMemory(source);
    const { symbols } = cc({
      source: file === null ? source : `/proc/self/fd/${file}`,
      define: { ...LANE_MACROS, ...(await addressesInLibrary()) },
      // Without this, the compiler needs `libc.so`, which only the library's development files have.
      flags: "-nostdlib",
      symbols: {
        write_rows: { args: ["ptr", "ptr", "ptr", "ptr", "ptr", "ptr"], returns: "i32" },
        try_send: { args: [], returns: "i32" },
      },
    });
    const errno = symbols.try_send();
    return errno === 0 ? symbols.write_rows : { refused: `send fails with errno ${errno}` };
  } catch (error) {
    const [line] = String(error instanceof Error ? error.message : error).split("\n");
    return { refused: `bun:ffi cannot compile lanes.c (${line})` };
  } finally {
    if (file !== null) closeSync(file);
  }
}

/** Functions of the C library that lanes.c calls, and the macros that lanes.c has for their addresses. */
const LIBRARY_FUNCTIONS = {
  AT_SYSCALL: "syscall",
  AT_SOCKETPAIR: "socketpair",
  AT_CLOSE: "close",
  AT_ERRNO_LOCATION: "__errno_location",
  AT_MEMCPY: "memcpy",
} as const;

/** Returns the macros of lanes.c with the addresses of functions in this process. Throws if the C library has another name. */
export async function addressesInLibrary(): Promise<Record<keyof typeof LIBRARY_FUNCTIONS, string>> {
  const { dlopen } = await import("bun:ffi");
  const pairs = Object.entries(LIBRARY_FUNCTIONS);
  const { symbols, close } = dlopen(C_LIBRARY, Object.fromEntries(pairs.map(([, name]) => [name, {}])));
  const macros = pairs.map(([macro, name]) => [macro, `${(symbols[name] as unknown as { ptr: number }).ptr}UL`]);
  close();
  return Object.fromEntries(macros);
}

const C_LIBRARY = "libc.so.6";
/** Flag of `memfd_create`: other programs that this process starts do not get the file. */
const CLOSE_ON_EXEC = 1;

/**
 * Copies a file into a file in memory, and returns its descriptor. The compiler of Bun 1.4.5 opens its source by a system call,
 * which does not find a file that is embedded in the program. A temporary file would need a folder that can be written to.
 */
async function copyInMemory(source: URL): Promise<number> {
  const { dlopen, FFIType, ptr } = await import("bun:ffi");
  const { symbols, close } = dlopen(C_LIBRARY, {
    memfd_create: { args: [FFIType.pointer, FFIType.u32], returns: FFIType.i32 },
  });
  const file = symbols.memfd_create(ptr(Buffer.from("lanes.c\0")), CLOSE_ON_EXEC);
  close();
  if (file < 0) throw new Error("no file in memory");
  writeSync(file, readFileSync(source));
  return file;
}
