/**
 * How do `using` and `await using` find what ends a server or an engine? By symbols that compilers before TypeScript 5.2
 * and some realms of test runners do not have: the declarations leave them out there.
 */

type SymbolNamed<Name extends string> = typeof Symbol extends { readonly [Key in Name]: infer S extends symbol }
  ? S
  : never;

/** `await using`. */
export type AsyncDisposing = { readonly [S in SymbolNamed<"asyncDispose">]: () => Promise<void> };
/** `using`. */
export type Disposing = { readonly [S in SymbolNamed<"dispose">]: () => void };

interface Closing {
  close(): unknown;
}

/** A class whose objects are closed by the symbol of that name. */
function closedBy<D>(name: "dispose" | "asyncDispose"): abstract new () => D {
  const symbol = (Symbol as unknown as Record<string, symbol | undefined>)[name] ?? Symbol.for(`Symbol.${name}`);
  class Closed {
    [symbol](this: Closing): unknown {
      return this.close();
    }
  }
  return Closed as unknown as abstract new () => D;
}

export const ClosedByUsing = closedBy<Disposing>("dispose");
export const ClosedByAwaitUsing = closedBy<AsyncDisposing>("asyncDispose");
