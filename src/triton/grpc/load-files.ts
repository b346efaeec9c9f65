/** Which files does a load over gRPC bring along? Their sizes: nobody looks at what is in them, and as a text of JSON they are slow. */
import type { Message } from "@bufbuild/protobuf";

/** What is used of `RepositoryModelLoadRequest`, as the library reads it. */
interface LoadMessage {
  readonly parameters: Readonly<
    Record<string, { parameterChoice: { readonly case?: string; readonly value?: unknown } | undefined }>
  >;
}
const NOTHING = new Uint8Array();

/** By the parameter's name; in the message they are empty from then on. */
export function takeFiles(message: Message): ReadonlyMap<string, number> {
  const taken = new Map<string, number>();
  for (const [name, parameter] of Object.entries((message as unknown as LoadMessage).parameters)) {
    const { case: kind, value } = parameter.parameterChoice ?? {};
    if (kind !== "bytesParam") continue;
    taken.set(name, (value as Uint8Array).length);
    parameter.parameterChoice = { case: kind, value: NOTHING };
  }
  return taken;
}
