/** Model of block pool and prefix cache: a list of free blocks, and for each content the blocks that hold it. */

export interface Block {
  readonly id: number;
  refs: number;
  content: string | null;
}

export class Pool {
  readonly total: number;
  /** The next block to be taken comes first. */
  free: Block[];
  /** Blocks of each content, in order of entry. */
  readonly shown = new Map<string, Block[]>();

  /** Block 0 is never used. */
  constructor(
    numGpuBlocks: number,
    readonly blockSize: number,
    readonly caching: boolean,
  ) {
    this.total = numGpuBlocks - 1;
    this.free = Array.from({ length: this.total }, (_, i) => ({ id: i + 1, refs: 0, content: null }));
  }

  blocksFor(tokens: number): number {
    return Math.ceil(tokens / this.blockSize);
  }

  /** Takes blocks from the front. Their old content is forgotten. */
  take(count: number): Block[] {
    const taken = this.free.splice(0, count);
    for (const block of taken) {
      this.#forget(block);
      block.refs = 1;
    }
    return taken;
  }

  touch(blocks: readonly Block[]): void {
    for (const block of blocks) if (block.refs++ === 0) this.free.splice(this.free.indexOf(block), 1);
  }

  /**
   * Releases blocks from last to first. Blocks without content go to the front as a group in this order, the others to the end.
   */
  release(table: readonly Block[]): void {
    const idle = table.toReversed().filter((block) => --block.refs === 0);
    const keeps = (block: Block) => this.caching && block.content !== null;
    this.free = [...idle.filter((block) => !keeps(block)), ...this.free, ...idle.filter(keeps)];
  }

  enter(block: Block, content: string): void {
    block.content = content;
    this.shown.set(content, [...(this.shown.get(content) ?? []), block]);
  }

  /** Returns the blocks of these contents up to the first that is missing. */
  lookUp(contents: readonly string[]): Block[] {
    const missing = contents.findIndex((content) => !this.shown.has(content));
    return contents.slice(0, missing < 0 ? contents.length : missing).map((content) => this.shown.get(content)![0]!);
  }

  /** Returns false while a block is in use. */
  reset(): boolean {
    if (this.free.length < this.total) return false;
    for (const block of this.free) block.content = null;
    this.shown.clear();
    return true;
  }

  #forget(block: Block): void {
    if (block.content === null) return;
    const others = this.shown.get(block.content)!.filter((other) => other !== block);
    if (others.length) this.shown.set(block.content, others);
    else this.shown.delete(block.content);
    block.content = null;
  }
}
