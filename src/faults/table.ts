/** The table of all faults, by id. docs/reference/faults.md is generated from it. */

import type { FaultRow } from "./plan/types.ts";
import { admissionRows, clientRows } from "./rows/admission.ts";
import { byteRows } from "./rows/bytes.ts";
import { endRows } from "./rows/ends.ts";
import { grpcRows } from "./rows/grpc.ts";
import { httpRows } from "./rows/http.ts";
import { jsonRows } from "./rows/json.ts";
import { sseRows, timingRows } from "./rows/sse.ts";

const GROUPS = [byteRows, sseRows, endRows, httpRows, timingRows, jsonRows, admissionRows, grpcRows, clientRows];
/** Order of the first letters of fault ids in the docs. */
const LETTERS = "BSEHTJAGC";

export const FAULT_ROWS: ReadonlyMap<string, FaultRow> = new Map(
  GROUPS.flat()
    .toSorted(
      (a, b) => LETTERS.indexOf(a.id[0]!) - LETTERS.indexOf(b.id[0]!) || Number(a.id.slice(1)) - Number(b.id.slice(1)),
    )
    .map((row) => [row.id, row]),
);
