/**
 * Lets `using` and `await using` close servers and engines. Compilers before TypeScript 5.2 and some test runners lack the
 * symbols for that. With such a compiler, the type declarations leave the two methods out.
 */

type SymbolNamed<Name extends string> = typeof Symbol extends { readonly [Key in Name]: infer S extends symbol }
  ? S
  : never;

/** An object for `await using`. */
export type AsyncDisposing = { readonly [S in SymbolNamed<"asyncDispose">]: () => Promise<void> };
/** An object for `using`. */
export type Disposing = { readonly [S in SymbolNamed<"dispose">]: () => void };

interface Closing {
  close(): unknown;
}

/** Makes a base class whose method for `Symbol.dispose` or `Symbol.asyncDispose` calls `close`. */
function closedBy<D>(name: "dispose" | "asyncDispose"): abstract new () => D {
  const symbol = (Symbol as unknown as Record<string, symbol | undefined>)[name] ?? Symbol.for(`Symbol.${name}`);
  class ClosingBase {
    [symbol](this: Closing): unknown {
      return this.close();
    }
  }
  return ClosingBase as unknown as abstract new () => D;
}

export const ClosedByUsing = closedBy<Disposing>("dispose");
export const ClosedByAwaitUsing = closedBy<AsyncDisposing>("asyncDispose");
