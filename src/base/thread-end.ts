/**
 * Notices the end of a worker thread, however it ends: an error while its module is evaluated or in a handler, a rejected
 * promise that nobody handles, `process.exit`. After each of them Bun 1.4.5 ends the thread and dispatches `close`; before
 * it `error`, with the reason, unless the thread called `process.exit`.
 */

/** Calls `ended` once, with the reason in words, unless the returned function was called before. */
export function onThreadEnd(worker: Worker, ended: (why: string) => void): () => void {
  let isOver = false;
  const end = (why: string) => {
    if (isOver) return;
    isOver = true;
    ended(why);
  };
  worker.onerror = ({ message }) => end(message);
  worker.addEventListener("close", () => end("the thread ended"));
  return () => {
    isOver = true;
  };
}
