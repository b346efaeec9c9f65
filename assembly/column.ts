// Where does the core's memory come from? Everything is taken in `init`, column by column, and never given back.
// `new StaticArray` would write zeros over every page; fresh WebAssembly memory is zero already and a page that
// nobody touches costs nothing. So in every table of the core 0 means empty.

let measuring = false;
let measured: f64 = 0;

/** Runs before the columns are taken: adds up what they would need instead. */
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
