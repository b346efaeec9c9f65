/** Runs a server with completions and its own metrics, correct or with one bug, as a target for examples/programs/exporter.js. */

interface Counts {
  requests: number;
  open: number;
  finished: number;
  left: number;
  seconds: number;
  buckets: number[];
  ids: string[];
  /** Durations of the finished requests in seconds. */
  ended: number[];
}

/** A bug that real exporters have had, as a change of the counts or of the page. */
interface Bug {
  /** Counts a client that has left. */
  readonly leaves?: (counts: Counts) => void;
  readonly page?: (text: string, counts: Counts) => string;
}

const BOUNDS = [0.005, 0.01, 0.1, 10];

export const BUGS: Readonly<Record<string, Bug>> = {
  "no line end after the last line": { page: (text) => text.trimEnd() },
  "a repeated series once a client has left": {
    page: (text, { left }) => (left > 0 ? text.replace(/^app_left_total .*\n/m, "$&$&") : text),
  },
  "a mean without values if no request has ended since the last scrape": {
    page: (text, counts) => {
      const ended = counts.ended.splice(0);
      return `${text}# TYPE app_mean_seconds gauge\napp_mean_seconds ${ended.reduce((sum, seconds) => sum + seconds, 0) / ended.length}\n`;
    },
  },
  "buckets that are not cumulative": {
    page: (text, { buckets }) => replaced(text, (i) => buckets[i]!),
  },
  "no bucket +Inf": { page: (text) => text.replace(/^app_seconds_bucket\{le="\+Inf"\} .*\n/m, "") },
  "clients that have left are missing in the buckets": {
    page: (text, { finished, left }) => text.replace(/^app_seconds_count .*/m, `app_seconds_count ${finished + left}`),
  },
  "milliseconds instead of seconds": {
    page: (text, { seconds }) => text.replace(/^app_seconds_sum .*/m, `app_seconds_sum ${seconds * 1000}`),
  },
  "bucket bounds that change with the load": {
    page: (text, { finished }) => text.replace('le="10"', `le="${10 + finished}"`),
  },
  "a counter of the open requests": {
    page: (text, { open }) => `${text}# TYPE app_active_total counter\napp_active_total ${open}\n`,
  },
  "a series that disappears when no request is open": {
    page: (text, { open }) =>
      open === 0 ? text : `${text}# TYPE app_busy_seconds_total counter\napp_busy_seconds_total{model="m"} 1\n`,
  },
  "a series per request": {
    page: (text, { ids }) =>
      `${text}# TYPE app_seen_total counter\n${ids.map((id) => `app_seen_total{request_id="${id}"} 1\n`).join("")}`,
  },
  "a client that leaves is subtracted twice": {
    leaves: (counts) => {
      counts.open -= 2;
      counts.left++;
    },
  },
  "a client that leaves is counted nowhere": { leaves: (counts) => void counts.open-- },
  "a share above 1": {
    page: (text, { open }) => `${text}# TYPE app_utilization gauge\napp_utilization ${open}\n`,
  },
};

const replaced = (text: string, value: (bucket: number) => number) =>
  [...BOUNDS, "+Inf"].reduce<string>(
    (all, le, i) => all.replace(`{le="${le}"} `, `{le="${le}"} ${value(i)} `).replace(/(\} \d+) \d+\n/, "$1\n"),
    text,
  );

function page({ requests, open, finished, left, seconds, buckets }: Counts): string {
  let upTo = 0;
  const rows = [...BOUNDS, "+Inf"].map((le, i) => {
    upTo += buckets[i]!;
    return `app_seconds_bucket{le="${le}"} ${upTo}\n`;
  });
  const lines = [
    `# TYPE app_requests_total counter\napp_requests_total ${requests}\n`,
    `# TYPE app_requests_open gauge\napp_requests_open ${open}\n`,
    `# TYPE app_finished_total counter\napp_finished_total ${finished}\n`,
    `# TYPE app_left_total counter\napp_left_total ${left}\n`,
    `# TYPE app_seconds histogram\n${rows.join("")}app_seconds_sum ${seconds}\napp_seconds_count ${finished}\n`,
  ];
  return lines.join("");
}

const TOKEN_MS = 2;

function leaves(counts: Counts): void {
  counts.open--;
  counts.left++;
}

/** Starts a server that streams `max_tokens` tokens and counts its requests. */
export function exporterWith(bug: Bug) {
  const counts: Counts = {
    ...{ requests: 0, open: 0, finished: 0, left: 0, seconds: 0 },
    ...{ buckets: [0, 0, 0, 0, 0], ids: [], ended: [] },
  };
  const leave = bug.leaves ?? leaves;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      if (request.method === "GET") return new Response(bug.page?.(page(counts), counts) ?? page(counts));
      const began = performance.now();
      counts.requests++;
      counts.open++;
      counts.ids.push(`cmpl-${counts.requests}`);
      const { max_tokens } = (await request.json()) as { max_tokens: number };
      let left = max_tokens;
      return new Response(
        new ReadableStream({
          async pull(out) {
            await Bun.sleep(TOKEN_MS);
            if (left-- > 0) return out.enqueue(`data: {"choices":[{"text":"x"}]}\n\n`);
            const seconds = (performance.now() - began) / 1000;
            counts.open--;
            counts.finished++;
            counts.seconds += seconds;
            counts.ended.push(seconds);
            counts.buckets[[...BOUNDS, Number.POSITIVE_INFINITY].findIndex((most) => seconds <= most)]!++;
            out.enqueue("data: [DONE]\n\n");
            out.close();
          },
          cancel: () => leave(counts),
        }),
        { headers: { "content-type": "text/event-stream" } },
      );
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, [Symbol.asyncDispose]: () => server.stop(true) };
}
