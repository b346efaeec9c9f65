// Allocates all memory of the core, column by column, during `init`. Nothing is ever freed. `new StaticArray` would
// write zeros to every page. Fresh WebAssembly memory already is zero, and a page that is never written costs nothing.
// Therefore 0 means empty in every table of the core.

let measuring = false;
let measured: f64 = 0;

/** Switches to counting: `column` and its variants then add up the bytes they need and allocate nothing. */
export function measure(on: bool): void {
  measuring = on;
  if (on) measured = 0;
}

export function measuredBytes(): f64 {
  return measured;
}

function take(bytes: f64, id: u32): usize {
  measured += bytes + 32;
  if (measuring) return 0;
  return __new(<usize>bytes, id);
}

export function column(length: i32): StaticArray<i32> {
  return changetype<StaticArray<i32>>(take(<f64>length * 4, idof<StaticArray<i32>>()));
}

export function column64(length: i32): StaticArray<u64> {
  return changetype<StaticArray<u64>>(take(<f64>length * 8, idof<StaticArray<u64>>()));
}

export function columnF(length: i32): StaticArray<f64> {
  return changetype<StaticArray<f64>>(take(<f64>length * 8, idof<StaticArray<f64>>()));
}

export function columnB(length: i32): StaticArray<u8> {
  return changetype<StaticArray<u8>>(take(<f64>length, idof<StaticArray<u8>>()));
}
