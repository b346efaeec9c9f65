/** Tests that large messages arrive and leave whole, however they are cut, without a copy at the end. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { VirtualClock } from "../../../src/base/virtual-clock.ts";
import { ResponseWriter, responseHead } from "../../../src/servers/triton/grpc/infer-response.ts";
import type { Tensor } from "../../../src/servers/triton/tensors/datatypes.ts";
import { GrpcCall } from "../../../src/wire/grpc/call.ts";
import { CallDeadlines } from "../../../src/wire/grpc/deadlines.ts";
import { HeldMessages } from "../../../src/wire/grpc/held-messages.ts";
import { MESSAGE_HEAD_BYTES, TurnShare } from "../../../src/wire/grpc/incoming.ts";
import { Unpacking } from "../../../src/wire/grpc/unpacking.ts";
import { WaitingBytes } from "../../../src/wire/http/waiting-bytes.ts";
import type { ConnectionHandle } from "../../../src/wire/http2/connection-handle.ts";
import type { Http2Stream } from "../../../src/wire/http2/stream.ts";
import { times } from "../../size.ts";

const HELD_BYTES = 2 ** 23;

function called(message: (bytes: Uint8Array, call: GrpcCall) => void) {
  const sent: Buffer[] = [];
  const stream = {
    queued: 0,
    head() {},
    write: (bytes: Buffer, length = bytes.length) => void sent.push(Buffer.from(bytes.subarray(0, length))),
    end() {},
  };
  const held = new HeldMessages(HELD_BYTES);
  const turns = { nowUs: () => 0 };
  const around = {
    deadlines: new CallDeadlines(new VirtualClock()),
    messageBytes: 2 ** 22,
    held,
    unpacking: new Unpacking(2 ** 22, held),
    turns,
    share: new TurnShare(turns),
    waiting: new WaitingBytes(2 ** 30),
    broken: () => {},
  };
  const head = { method: "POST", path: "/t.T/Echo", fields: [] };
  const call = new GrpcCall(
    stream as unknown as Http2Stream,
    head as unknown as ConstructorParameters<typeof GrpcCall>[1],
    null,
    around,
    {} as ConnectionHandle,
  );
  call.begin({ message: (bytes) => message(bytes, call), halfClosed() {}, cancelled() {} }, null);
  return { call, sent, held };
}

const framed = (body: Buffer): Buffer => {
  const head = Buffer.alloc(MESSAGE_HEAD_BYTES);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
};

test("messages of any size in parts of any size arrive unchanged, and nothing stays held", () => {
  const sizes = fc.array(fc.oneof(fc.nat(20), fc.nat(1_500_000)), { minLength: 1, maxLength: 4 });
  const cuts = fc.array(fc.oneof(fc.nat(6), fc.nat(600_000)), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(sizes, cuts, (lengths, parts) => {
      const bodies = lengths.map((length, at) => Buffer.alloc(length, `${at}abcdefg`));
      const came: Buffer[] = [];
      const { call, held } = called((bytes) => came.push(Buffer.from(bytes)));
      const all = Buffer.concat(bodies.map(framed));
      for (let at = 0, turn = 0; at < all.length; turn++) {
        const end = Math.min(all.length, at + Math.max(1, parts[turn % parts.length]!, turn > 500 ? 100_000 : 0));
        call.data(Buffer.from(all.subarray(at, end)));
        at = end;
      }
      expect(came.map(({ length }) => length)).toEqual(lengths);
      expect(Buffer.compare(Buffer.concat(came), Buffer.concat(bodies))).toBe(0);
      expect(held.bytes).toBe(0);
    }),
    { numRuns: times(60) },
  );
});

test("an answer sent in parts has the same bytes as one sent whole", () => {
  const tensors = fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 3 });
  fc.assert(
    fc.property(tensors, (list) => {
      const outputs = list.map(
        (data, at): Tensor => ({ name: `y${at}`, datatype: "UINT8", shape: [data.length], data }),
      );
      const writer = new ResponseWriter();
      const parts = { head: responseHead("m", "1", "id"), parameters: [["a", 1]] as const, final: null, outputs };
      const { call, sent } = called(() => {});
      const length = writer.response(parts);
      call.send(writer.bytes, length);
      const whole = Buffer.concat(sent.splice(0));
      if (outputs.length === 0) return;
      call.sendParts(writer.responseParts(parts));
      expect(Buffer.compare(Buffer.concat(sent), whole)).toBe(0);
    }),
    { numRuns: times(60) },
  );
});
