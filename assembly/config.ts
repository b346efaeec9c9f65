// The configuration, read once in `init`. Names follow vLLM's options.
import { setting, settingI } from "./header";
import { Config } from "./layout";

export let maxModelLen: i32 = 0;
export let maxNumSeqs: i32 = 0;
export let maxNumActiveSeqs: i32 = 0;
export let maxNumBatchedTokens: i32 = 0;
export let maxNumScheduledTokens: i32 = 0;
export let blockSize: i32 = 0;
export let numGpuBlocks: i32 = 0;
export let prefixCaching = false;
export let chunkedPrefill = false;
export let asyncScheduling = false;
export let priorityPolicy = false;
export let longPrefillTokenThreshold: i32 = 0;
export let longPrefillAdaptive = false;
export let prefillScheduleInterval: i32 = 1;
export let reserveFullIsl = false;
/** Blocks that admission must leave free while any request runs: int(watermark * num_gpu_blocks). */
export let watermarkBlocks: i32 = 0;
export let maxLoras: i32 = 0;
export let eosId: i32 = 0;
export let kvEvents = false;
export let inputLength: i32 = 0;
export let fixes: i32 = 0;

export function readConfig(): void {
  maxModelLen = settingI(Config.MaxModelLen);
  maxNumSeqs = settingI(Config.MaxNumSeqs);
  maxNumActiveSeqs = settingI(Config.MaxNumActiveSeqs);
  maxNumBatchedTokens = settingI(Config.MaxNumBatchedTokens);
  maxNumScheduledTokens = settingI(Config.MaxNumScheduledTokens);
  blockSize = settingI(Config.BlockSize);
  numGpuBlocks = settingI(Config.NumGpuBlocks);
  prefixCaching = settingI(Config.EnablePrefixCaching) !== 0;
  chunkedPrefill = settingI(Config.EnableChunkedPrefill) !== 0;
  asyncScheduling = settingI(Config.AsyncScheduling) !== 0;
  priorityPolicy = settingI(Config.PriorityPolicy) !== 0;
  longPrefillTokenThreshold = settingI(Config.LongPrefillTokenThreshold);
  longPrefillAdaptive = settingI(Config.LongPrefillTokenThresholdAdaptive) !== 0;
  prefillScheduleInterval = settingI(Config.PrefillScheduleInterval);
  reserveFullIsl = settingI(Config.ReserveFullIsl) !== 0;
  watermarkBlocks = <i32>(setting(Config.Watermark) * setting(Config.NumGpuBlocks));
  maxLoras = settingI(Config.MaxLoras);
  eosId = settingI(Config.EosId);
  kvEvents = settingI(Config.KvEvents) !== 0;
  inputLength = settingI(Config.InputLength);
  fixes = settingI(Config.Fixes);
}
