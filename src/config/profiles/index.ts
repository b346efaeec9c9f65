/**
 * Which presets are there? Not here: simulators that have no steps or no measurement behind them
 * (BLIS coefficients, the Dynamo mocker's polynomial, llm-d-inference-sim's profiles).
 */
import type { Profile } from "../timing/profile.ts";
import { profile as gptOss120bMxfp4H100Tp2Vllm } from "./gpt-oss-120b-mxfp4-h100-tp2-vllm.ts";
import { profile as llama318bBf16A100Tp1Vllm } from "./llama-3-1-8b-bf16-a100-tp1-vllm.ts";
import { profile as llama318bBf16H100Tp1Vllm } from "./llama-3-1-8b-bf16-h100-tp1-vllm.ts";
import { profile as llama318bFp8H200Tp1DynamoProfile } from "./llama-3-1-8b-fp8-h200-tp1-dynamo-profile.ts";
import { profile as llama318bFp8H200Tp1Vllm } from "./llama-3-1-8b-fp8-h200-tp1-vllm.ts";
import { profile as llama318bFp8L40sTp1Vllm } from "./llama-3-1-8b-fp8-l40s-tp1-vllm.ts";
import { profile as llama3170bFp8B200Tp2Vllm } from "./llama-3-1-70b-fp8-b200-tp2-vllm.ts";
import { profile as llama3170bFp8H100Tp2Vllm } from "./llama-3-1-70b-fp8-h100-tp2-vllm.ts";
import { profile as llama3170bFp8H100Tp4Vllm } from "./llama-3-1-70b-fp8-h100-tp4-vllm.ts";
import { profile as llama3170bFp8H100Tp8Vllm } from "./llama-3-1-70b-fp8-h100-tp8-vllm.ts";
import { profile as llama3170bFp8H200Tp4Trtllm } from "./llama-3-1-70b-fp8-h200-tp4-trtllm.ts";
import { profile as llama3170bFp8H200Tp4Vllm } from "./llama-3-1-70b-fp8-h200-tp4-vllm.ts";
import { profile as qwen330bA3bBf16H100Tp1Vllm } from "./qwen3-30b-a3b-bf16-h100-tp1-vllm.ts";
import { profile as qwen332bBf16H100Tp2Vllm } from "./qwen3-32b-bf16-h100-tp2-vllm.ts";
import { profile as qwen332bFp8H200Tp1Vllm } from "./qwen3-32b-fp8-h200-tp1-vllm.ts";

export const profiles: readonly Profile[] = [
  gptOss120bMxfp4H100Tp2Vllm,
  llama3170bFp8B200Tp2Vllm,
  llama3170bFp8H100Tp2Vllm,
  llama3170bFp8H100Tp4Vllm,
  llama3170bFp8H100Tp8Vllm,
  llama3170bFp8H200Tp4Trtllm,
  llama3170bFp8H200Tp4Vllm,
  llama318bBf16A100Tp1Vllm,
  llama318bBf16H100Tp1Vllm,
  llama318bFp8H200Tp1DynamoProfile,
  llama318bFp8H200Tp1Vllm,
  llama318bFp8L40sTp1Vllm,
  qwen330bA3bBf16H100Tp1Vllm,
  qwen332bBf16H100Tp2Vllm,
  qwen332bFp8H200Tp1Vllm,
];
