/**
 * Measures how late the tokens of a stream are while a load runs. `bun steady-stream.ts URL ITL_MS` reads until its stdin
 * closes, then prints the delays.
 */
const [url = "", itl = "5"] = process.argv.slice(2);
const excess: number[] = [];
let over = false;
void Bun.stdin.text().then(() => {
  over = true;
});
while (!over) {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt: "steady", max_tokens: 900, ignore_eos: true, stream: true }),
  });
  let last = 0;
  for await (const _ of response.body!) {
    const now = performance.now();
    if (last > 0) excess.push(Math.max(0, now - last - Number(itl)));
    last = now;
    if (over) break;
  }
}
excess.sort((a, b) => a - b);
const at = (share: number) => excess[Math.floor(excess.length * share)] ?? 0;
console.log(JSON.stringify({ events: excess.length, p50: at(0.5), p99: at(0.99) }));
process.exit(0);

export {};
