/**
 * Notices the end of a worker thread for any reason: an error in its module or in a handler, a rejected promise that nobody
 * handles, or `process.exit`. In each case Bun 1.4.5 ends the thread and dispatches `close`. Before `close` it dispatches
 * `error` with the reason, unless the thread called `process.exit`.
 */

/** Calls `ended` once, with the reason in words, when the thread has ended. Returns a function that prevents the call. */
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
