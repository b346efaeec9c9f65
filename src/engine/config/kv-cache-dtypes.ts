/**
 * Data types of the KV cache (`CacheDType` of vLLM 0.33, `config/cache.py`), and their size compared with 16 bits, for
 * which the presets' pools are estimated. Sizes: `v1/kv_cache_interface.py`.
 */

/** null: the size depends on the model or attention backend, which presets do not state, so the pool stays as it is. */
const SHRINKS = {
  auto: 1,
  float16: 1,
  bfloat16: 1,
  fp8: 2,
  fp8_e4m3: 2,
  fp8_e5m2: 2,
  fp8_inc: 2,
  fp8_ds_mla: null,
  nvfp4_ds_mla: null,
  turboquant_k8v4: null,
  turboquant_4bit_nc: null,
  turboquant_k3v4_nc: null,
  turboquant_3bit_nc: null,
  octave_k3v4: null,
  octave_k3v3: null,
  octave_k3v3_compact: null,
  ultraquant_4bit: null,
  int4_per_token_head: null,
  int8_per_token_head: null,
  fp8_per_token_head: null,
  nvfp4: null,
  nvfp4_4over6: null,
} as const;

export type KvCacheDtype = keyof typeof SHRINKS;
export const KV_CACHE_DTYPES = Object.keys(SHRINKS) as KvCacheDtype[];

/** Returns the factor by which more tokens fit, or null if it is unknown. */
export function moreTokens(dtype: KvCacheDtype): number | null {
  return SHRINKS[dtype];
}
