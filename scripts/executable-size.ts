/**
 * Computes the least size of a program in bytes from the header of its file. A shorter file is truncated. Formats: 64-bit ELF
 * (System V ABI) and Mach-O (loader.h of macOS), both little-endian.
 */
import { closeSync, fstatSync, openSync, readSync, writeSync } from "node:fs";

const ELF_MAGIC = 0x464c457f;
const MACH_O_MAGIC = 0xfeedfacf;
/**
 * Number of the load command for a segment. The next list has the load commands that name a part of the file by offset and
 * size.
 */
const SEGMENT_64 = 0x19;
const CODE_SIGNATURE = 0x1d;
/** ELF type of sections that occupy no bytes in the file. */
const NOBITS = 8;
/** ELF type of the segment with the path of the dynamic linker. */
const INTERPRETER = 3;

/**
 * Returns the least size that a complete program has by its header, or 0 for an unknown format. `bytes`: the file or its
 * beginning. Tables beyond the end of `bytes` are not counted.
 */
export function wholeSizeOf(bytes: Uint8Array): number {
  if (bytes.length < 64) return 64;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const magic = view.getUint32(0, true);
  if (magic === ELF_MAGIC) return elfSize(view);
  return magic === MACH_O_MAGIC ? machOSize(view) : 0;
}

/**
 * Copies the path of the dynamic linker to the end of an ELF program, and changes the header so that it points to the copy.
 * Linux reads the path before it starts the program (fs/binfmt_elf.c). So Linux refuses a truncated file with EIO. Without the
 * copy, Bun would start, and crash when it reads the missing part.
 */
export function putInterpreterLast(path: string): void {
  const file = openSync(path, "r+");
  try {
    const head = new DataView(new ArrayBuffer(4096));
    readSync(file, head, 0, head.byteLength, 0);
    const [at, size, count] = [Number(head.getBigUint64(32, true)), head.getUint16(54, true), head.getUint16(56, true)];
    for (let segment = at; segment < at + size * count; segment += size) {
      if (head.getUint32(segment, true) !== INTERPRETER) continue;
      const name = new Uint8Array(Number(head.getBigUint64(segment + 32, true)));
      readSync(file, name, 0, name.length, Number(head.getBigUint64(segment + 8, true)));
      const end = fstatSync(file).size;
      head.setBigUint64(segment + 8, BigInt(end), true);
      writeSync(file, name, 0, name.length, end);
      writeSync(file, new Uint8Array(head.buffer, segment + 8, 8), 0, 8, segment + 8);
    }
  } finally {
    closeSync(file);
  }
}

function elfSize(view: DataView): number {
  const u16 = (at: number) => view.getUint16(at, true);
  const u64 = (at: number) => Number(view.getBigUint64(at, true));
  const segments = { at: u64(32), size: u16(54), count: u16(56) };
  const sections = { at: u64(40), size: u16(58), count: u16(60) };
  let end = Math.max(...[segments, sections].map(({ at, size, count }) => at + size * count));
  for (let index = 0; index < segments.count; index++) {
    const at = segments.at + index * segments.size;
    if (at + segments.size <= view.byteLength) end = Math.max(end, u64(at + 8) + u64(at + 32));
  }
  for (let index = 0; index < sections.count; index++) {
    const at = sections.at + index * sections.size;
    if (at + sections.size <= view.byteLength && view.getUint32(at + 4, true) !== NOBITS)
      end = Math.max(end, u64(at + 24) + u64(at + 32));
  }
  return end;
}

function machOSize(view: DataView): number {
  const u32 = (at: number) => view.getUint32(at, true);
  const u64 = (at: number) => Number(view.getBigUint64(at, true));
  let end = 32 + u32(20);
  for (let index = 0, at = 32; index < u32(16) && at + 72 <= view.byteLength; index++, at += u32(at + 4)) {
    if (u32(at) === SEGMENT_64) end = Math.max(end, u64(at + 40) + u64(at + 48));
    if (u32(at) === CODE_SIGNATURE) end = Math.max(end, u32(at + 8) + u32(at + 12));
  }
  return end;
}
