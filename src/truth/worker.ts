/**
 * The thread that formats and writes the log. The first message has the configuration, each further message a page, and
 * the last one the dropped rows.
 */

import type { TruthDropped } from "../engine/interface/types.ts";
import { TruthFile } from "./file.ts";
import { formatPage } from "./format.ts";
import { Page } from "./page.ts";
import type { LogHeader } from "./schema.ts";
import type { TruthLogConfig } from "./truth-config.ts";

export type TruthOrder =
  | { readonly config: TruthLogConfig; readonly about: LogHeader }
  | { readonly words: Float64Array<ArrayBuffer>; readonly used: number }
  | { readonly close: TruthDropped };

export type TruthReply =
  | { readonly warning: string }
  /** Returns the page. `lost` counts from the start. */
  | { readonly words: Float64Array<ArrayBuffer>; readonly lost: TruthDropped }
  | { readonly closed: true; readonly lost: TruthDropped };

declare const self: Worker;

let file: TruthFile;

const reply = (message: TruthReply, handOver: ArrayBuffer[] = []) => self.postMessage(message, handOver);

self.onmessage = ({ data }: MessageEvent<TruthOrder>) => {
  if ("config" in data) {
    file = new TruthFile(data.config, data.about, (warning) => reply({ warning }));
  } else if ("words" in data) {
    const page = new Page(data.words);
    page.used = data.used;
    formatPage(page, (text, kind, runs) => file.line(text, kind, runs));
    file.flush();
    reply({ words: data.words, lost: file.lost }, [data.words.buffer]);
  } else {
    file.close(data.close);
    reply({ closed: true, lost: file.lost });
  }
};
