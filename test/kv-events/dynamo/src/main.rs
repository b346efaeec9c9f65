//! Feeds batches of KV events to Dynamo's decoder, normalizer and index, and prints what the index then has. Input: one
//! message per batch, its bytes behind their count. Each number is a little-endian u32:
//! - bytes of the batch's payload, and the payload as published
//! - number of prompts; for each the bytes of its cache salt, the salt, the number of its tokens, the tokens
//!
//! Output: one line per message, with the number of stored blocks, the sum of the low 32 bits of their hashes, the errors so
//! far, and the number of matching blocks of each prompt.

use std::collections::HashMap;
use std::io::{self, BufReader, BufWriter, Read, Write};

use dynamo_kv_router::RadixTree;
use dynamo_kv_router::protocols::{
    BlockHashOptions, KvCacheEventData, LocalBlockHash, WorkerWithDpRank,
    compute_block_hash_for_seq,
};
use dynamo_kv_router::zmq_wire::{RawKvEvent, ZmqEventNormalizer, decode_event_batch};

const WORKER: u64 = 0;

/// Blocks by hash. Several blocks of a pool may have the same content, and the index has no counts. The program in which a
/// worker of Dynamo publishes its engine's events counts them, and passes on the last removal.
#[derive(Default)]
struct Counts(HashMap<u64, u32>);

impl Counts {
    fn keep_last_removals(&mut self, event: &mut RawKvEvent) {
        match event {
            RawKvEvent::BlockStored { block_hashes, .. } => {
                for hash in block_hashes {
                    *self.0.entry(hash.into_u64()).or_default() += 1;
                }
            }
            RawKvEvent::BlockRemoved { block_hashes, .. } => block_hashes.retain(|hash| {
                let Some(count) = self.0.get_mut(&hash.into_u64()) else {
                    return true;
                };
                *count -= 1;
                if *count > 0 {
                    return false;
                }
                self.0.remove(&hash.into_u64());
                true
            }),
            RawKvEvent::AllBlocksCleared { .. } => self.0.clear(),
            RawKvEvent::Ignored => {}
        }
    }
}

struct Index {
    block_size: u32,
    counts: Counts,
    normalizer: ZmqEventNormalizer,
    tree: RadixTree,
    sequence: u64,
    errors: u32,
}

impl Index {
    fn new(block_size: u32) -> Self {
        Self {
            block_size,
            counts: Counts::default(),
            normalizer: ZmqEventNormalizer::new(block_size),
            tree: RadixTree::new(),
            sequence: 0,
            errors: 0,
        }
    }

    fn apply(&mut self, payload: &[u8]) {
        let batch = decode_event_batch(payload)
            .unwrap_or_else(|why| panic!("batch {}: {why}", self.sequence));
        let rank = batch.data_parallel_rank.expect("a batch names its rank") as u32;
        let worker = WorkerWithDpRank::new(WORKER, rank);
        for mut event in batch.events {
            self.counts.keep_last_removals(&mut event);
            let applied = self
                .normalizer
                .normalize(event, self.sequence, worker)
                .and_then(|event| event.into_router_event())
                .is_some_and(|event| match self.tree.apply_event(event) {
                    Ok(()) => true,
                    Err(why) => {
                        eprintln!("batch {}: {why}", self.sequence);
                        false
                    }
                });
            self.errors += u32::from(!applied);
        }
        self.sequence += 1;
    }

    /// Returns the number of stored blocks, and the sum of the low 32 bits of their hashes.
    fn stored(&self) -> (usize, u64) {
        let mut hashes = Vec::new();
        for event in self.tree.dump_tree_as_events() {
            if let KvCacheEventData::Stored(stored) = event.event.data {
                hashes.extend(stored.blocks.iter().map(|block| block.block_hash.0));
            }
        }
        (
            hashes.len(),
            hashes.iter().map(|hash| hash & 0xffff_ffff).sum(),
        )
    }

    fn matching(&self, salt: &str, tokens: &[u32]) -> u32 {
        let options = BlockHashOptions {
            cache_namespace: Some(salt),
            ..Default::default()
        };
        let hashes: Vec<LocalBlockHash> =
            compute_block_hash_for_seq(tokens, self.block_size, options);
        self.tree
            .find_matches(hashes, false)
            .scores
            .values()
            .copied()
            .max()
            .unwrap_or(0)
    }
}

struct Input<R>(R);

impl<R: Read> Input<R> {
    /// Returns null at the end of the input.
    fn count(&mut self) -> Option<usize> {
        let mut bytes = [0; 4];
        self.0.read_exact(&mut bytes).ok()?;
        Some(u32::from_le_bytes(bytes) as usize)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).expect("a message is whole");
        bytes
    }

    fn part(&mut self) -> Vec<u8> {
        let count = self.count().expect("a message is whole");
        self.bytes(count)
    }
}

fn main() -> io::Result<()> {
    let block_size = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let mut index =
        Index::new(block_size.expect("the argument is the number of tokens of a block"));
    let mut input = Input(BufReader::new(io::stdin().lock()));
    let mut output = BufWriter::new(io::stdout().lock());
    while let Some(count) = input.count() {
        if count == 0 {
            output.flush()?;
            continue;
        }
        let payload = input.bytes(count);
        index.apply(&payload);
        let (blocks, sum) = index.stored();
        write!(output, "{blocks} {sum} {}", index.errors)?;
        for _ in 0..input.count().expect("a message is whole") {
            let salt = String::from_utf8(input.part()).expect("a salt is text");
            let tokens = input.count().expect("a message is whole");
            let bytes = input.bytes(4 * tokens);
            let tokens: Vec<u32> = bytes
                .chunks(4)
                .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
                .collect();
            write!(output, " {}", index.matching(&salt, &tokens))?;
        }
        writeln!(output)?;
    }
    output.flush()
}
