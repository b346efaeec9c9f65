/**
 * Declares the messages of `inference.GRPCInferenceService` in the notation of `schema.ts`, which has those of the model
 * configuration. Names, numbers and types are those of the descriptors in tritonclient 2.73.0.
 */
import { type ConfigField, configField, definitions } from "../model-config/schema.ts";

const MESSAGES = `
  ServerLiveRequest ServerReadyRequest ServerMetadataRequest RepositoryModelLoadResponse RepositoryModelUnloadResponse
    SystemSharedMemoryRegisterResponse SystemSharedMemoryUnregisterResponse CudaSharedMemoryRegisterResponse
    CudaSharedMemoryUnregisterResponse =
  ServerLiveResponse = 1.live:bool
  ServerReadyResponse ModelReadyResponse = 1.ready:bool
  ModelReadyRequest ModelMetadataRequest ModelConfigRequest ModelStatisticsRequest = 1.name:string 2.version:string
  SystemSharedMemoryStatusRequest SystemSharedMemoryUnregisterRequest CudaSharedMemoryStatusRequest
    CudaSharedMemoryUnregisterRequest = 1.name:string
  ServerMetadataResponse = 1.name:string 2.version:string 3.extensions:string[]
  ModelMetadataResponse = 1.name:string 2.versions:string[] 3.platform:string
    4.inputs:ModelMetadataResponse.TensorMetadata[] 5.outputs:ModelMetadataResponse.TensorMetadata[]
  ModelMetadataResponse.TensorMetadata = 1.name:string 2.datatype:string 3.shape:int64[]
  InferParameter = 1.bool_param:bool|parameter_choice 2.int64_param:int64|parameter_choice
    3.string_param:string|parameter_choice 4.double_param:double|parameter_choice
    5.uint64_param:uint64|parameter_choice
  InferTensorContents = 1.bool_contents:bool[] 2.int_contents:int32[] 3.int64_contents:int64[]
    4.uint_contents:uint32[] 5.uint64_contents:uint64[] 6.fp32_contents:float[] 7.fp64_contents:double[]
    8.bytes_contents:bytes[]
  ModelInferRequest = 1.model_name:string 2.model_version:string 3.id:string 4.parameters:{string,InferParameter}
    5.inputs:ModelInferRequest.InferInputTensor[] 6.outputs:ModelInferRequest.InferRequestedOutputTensor[]
    7.raw_input_contents:bytes[]
  ModelInferRequest.InferInputTensor = 1.name:string 2.datatype:string 3.shape:int64[]
    4.parameters:{string,InferParameter} 5.contents:InferTensorContents
  ModelInferRequest.InferRequestedOutputTensor = 1.name:string 2.parameters:{string,InferParameter}
  ModelInferResponse = 1.model_name:string 2.model_version:string 3.id:string 4.parameters:{string,InferParameter}
    5.outputs:ModelInferResponse.InferOutputTensor[] 6.raw_output_contents:bytes[]
  ModelInferResponse.InferOutputTensor = 1.name:string 2.datatype:string 3.shape:int64[]
    4.parameters:{string,InferParameter} 5.contents:InferTensorContents
  ModelStreamInferResponse = 1.error_message:string 2.infer_response:ModelInferResponse
  ModelConfigResponse = 1.config:ModelConfig
  StatisticDuration = 1.count:uint64 2.ns:uint64
  InferStatistics = 1.success:StatisticDuration 2.fail:StatisticDuration 3.queue:StatisticDuration
    4.compute_input:StatisticDuration 5.compute_infer:StatisticDuration 6.compute_output:StatisticDuration
    7.cache_hit:StatisticDuration 8.cache_miss:StatisticDuration
  InferResponseStatistics = 1.compute_infer:StatisticDuration 2.compute_output:StatisticDuration
    3.success:StatisticDuration 4.fail:StatisticDuration 5.empty_response:StatisticDuration
    6.cancel:StatisticDuration
  InferBatchStatistics = 1.batch_size:uint64 2.compute_input:StatisticDuration 3.compute_infer:StatisticDuration
    4.compute_output:StatisticDuration
  MemoryUsage = 1.type:string 2.id:int64 3.byte_size:uint64
  ModelStatistics = 1.name:string 2.version:string 3.last_inference:uint64 4.inference_count:uint64
    5.execution_count:uint64 6.inference_stats:InferStatistics 7.batch_stats:InferBatchStatistics[]
    8.memory_usage:MemoryUsage[] 9.response_stats:{string,InferResponseStatistics}
  ModelStatisticsResponse = 1.model_stats:ModelStatistics[]
  ModelRepositoryParameter = 1.bool_param:bool|parameter_choice 2.int64_param:int64|parameter_choice
    3.string_param:string|parameter_choice 4.bytes_param:bytes|parameter_choice
  RepositoryIndexRequest = 1.repository_name:string 2.ready:bool
  RepositoryIndexResponse = 1.models:RepositoryIndexResponse.ModelIndex[]
  RepositoryIndexResponse.ModelIndex = 1.name:string 2.version:string 3.state:string 4.reason:string
  RepositoryModelLoadRequest RepositoryModelUnloadRequest = 1.repository_name:string 2.model_name:string
    3.parameters:{string,ModelRepositoryParameter}
  SystemSharedMemoryStatusResponse = 1.regions:{string,SystemSharedMemoryStatusResponse.RegionStatus}
  SystemSharedMemoryStatusResponse.RegionStatus = 1.name:string 2.key:string 3.offset:uint64 4.byte_size:uint64
  SystemSharedMemoryRegisterRequest = 1.name:string 2.key:string 3.offset:uint64 4.byte_size:uint64
  CudaSharedMemoryStatusResponse = 1.regions:{string,CudaSharedMemoryStatusResponse.RegionStatus}
  CudaSharedMemoryStatusResponse.RegionStatus = 1.name:string 2.device_id:uint64 3.byte_size:uint64
  CudaSharedMemoryRegisterRequest = 1.name:string 2.raw_handle:bytes 3.device_id:int64 4.byte_size:uint64
  TraceSettingRequest = 1.settings:{string,TraceSettingRequest.SettingValue} 2.model_name:string
  TraceSettingRequest.SettingValue TraceSettingResponse.SettingValue = 1.value:string[]
  TraceSettingResponse = 1.settings:{string,TraceSettingResponse.SettingValue}
  LogSettingsRequest = 1.settings:{string,LogSettingsRequest.SettingValue}
  LogSettingsRequest.SettingValue LogSettingsResponse.SettingValue = 1.bool_param:bool|parameter_choice
    2.uint32_param:uint32|parameter_choice 3.string_param:string|parameter_choice
  LogSettingsResponse = 1.settings:{string,LogSettingsResponse.SettingValue}
`;

/** Fields by message name, without the package. */
export const serviceMessages: ReadonlyMap<string, readonly ConfigField[]> = new Map(
  [...definitions(MESSAGES)].map(([name, fields]) => [name, fields.map(configField)]),
);
