// A gateway that exporter.js tests. It forwards requests to a server, counts them, and exports the counts at /metrics.
import http from "node:http";

const BOUNDS = [0.01, 0.1, 1, 10];

export async function startGateway(target) {
  const count = { requests: 0, open: 0, finished: 0, left: 0, sum: 0, buckets: [0, 0, 0, 0, 0] };
  const server = http.createServer((request, response) => {
    if (request.url === "/metrics") return void response.end(page(count));
    const [began, { method, headers }] = [performance.now(), request];
    count.requests++;
    count.open++;
    response.on("close", () => {
      count.open--;
      if (!response.writableFinished) return void count.left++;
      const seconds = (performance.now() - began) / 1000;
      count.finished++;
      count.sum += seconds;
      count.buckets[[...BOUNDS, Number.POSITIVE_INFINITY].findIndex((most) => seconds <= most)]++;
    });
    const asked = http.request(target + request.url, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    asked.on("error", () => response.destroy());
    response.on("close", () => asked.destroy());
    request.pipe(asked);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

function page({ requests, open, finished, left, sum, buckets }) {
  const upTo = (i) => buckets.slice(0, i + 1).reduce((all, one) => all + one);
  const rows = [...BOUNDS, "+Inf"].map((most, i) => `app_seconds_bucket{le="${most}"} ${upTo(i)}\n`);
  return `# TYPE app_requests_total counter
app_requests_total ${requests}
# TYPE app_requests_open gauge
app_requests_open ${open}
# TYPE app_finished_total counter
app_finished_total ${finished}
# TYPE app_left_total counter
app_left_total ${left}
# TYPE app_seconds histogram
${rows.join("")}app_seconds_sum ${sum}
app_seconds_count ${finished}
`;
}
