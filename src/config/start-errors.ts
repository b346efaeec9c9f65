/** The error of a server that cannot open one of its ports. */

/** The system's error, told apart from that of the server's first port. */
export class PortError extends Error {
  override readonly name = "PortError";
  readonly code: string | undefined;
  readonly of: "metrics" | "grpc" | "http2";

  constructor(cause: unknown, of: PortError["of"] = "metrics") {
    super(String(cause), { cause });
    this.of = of;
    this.code = (cause as { code?: string }).code;
  }
}
