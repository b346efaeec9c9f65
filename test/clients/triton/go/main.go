// What does a client of Go make of a Triton server? Each method of the protocol once, by messages that protoc-gen-go made of our
// table of fields. Prints a line of JSON per check.
//
//	client HOST:PORT
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"triton/inference"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const service = "/inference.GRPCInferenceService/"

var connection *grpc.ClientConn

func call(method string, request, response proto.Message) error {
	ctx, done := context.WithTimeout(context.Background(), 20*time.Second)
	defer done()
	return connection.Invoke(ctx, service+method, request, response)
}

func text(said string) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(said))), said...)
}

func infer(model, said, id string) *inference.ModelInferRequest {
	return &inference.ModelInferRequest{
		ModelName:        model,
		Id:               id,
		Inputs:           []*inference.ModelInferRequest_InferInputTensor{{Name: "text_input", Datatype: "BYTES", Shape: []int64{1}}},
		RawInputContents: [][]byte{text(said)},
	}
}

func want(holds bool, what any) error {
	if holds {
		return nil
	}
	return fmt.Errorf("%v", what)
}

func state() error {
	var live inference.ServerLiveResponse
	var ready inference.ServerReadyResponse
	var model inference.ModelReadyResponse
	if err := call("ServerLive", &inference.ServerLiveRequest{}, &live); err != nil {
		return err
	}
	if err := call("ServerReady", &inference.ServerReadyRequest{}, &ready); err != nil {
		return err
	}
	if err := call("ModelReady", &inference.ModelReadyRequest{Name: "plain"}, &model); err != nil {
		return err
	}
	health, err := grpc_health_v1.NewHealthClient(connection).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	serving := health.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
	return want(live.GetLive() && ready.GetReady() && model.GetReady() && serving, "not live and ready")
}

func about() error {
	var server inference.ServerMetadataResponse
	var metadata inference.ModelMetadataResponse
	var config inference.ModelConfigResponse
	var statistics inference.ModelStatisticsResponse
	if err := call("ServerMetadata", &inference.ServerMetadataRequest{}, &server); err != nil {
		return err
	}
	if err := call("ModelMetadata", &inference.ModelMetadataRequest{Name: "plain"}, &metadata); err != nil {
		return err
	}
	if err := call("ModelConfig", &inference.ModelConfigRequest{Name: "tokens"}, &config); err != nil {
		return err
	}
	if err := call("ModelStatistics", &inference.ModelStatisticsRequest{Name: "plain"}, &statistics); err != nil {
		return err
	}
	seen := server.GetName() == "triton" && len(server.GetExtensions()) > 9 && metadata.GetPlatform() == "python" &&
		config.GetConfig().GetModelTransactionPolicy().GetDecoupled() && statistics.GetModelStats()[0].GetName() == "plain"
	return want(seen, &server)
}

func repository() error {
	var index inference.RepositoryIndexResponse
	if err := call("RepositoryIndex", &inference.RepositoryIndexRequest{}, &index); err != nil {
		return err
	}
	if err := call("RepositoryModelLoad", &inference.RepositoryModelLoadRequest{ModelName: "batched"}, &inference.RepositoryModelLoadResponse{}); err != nil {
		return err
	}
	if err := call("RepositoryModelUnload", &inference.RepositoryModelUnloadRequest{ModelName: "batched"}, &inference.RepositoryModelUnloadResponse{}); err != nil {
		return err
	}
	return want(len(index.GetModels()) > 2, &index)
}

func settings() error {
	var trace inference.TraceSettingResponse
	var log inference.LogSettingsResponse
	var system inference.SystemSharedMemoryStatusResponse
	var cuda inference.CudaSharedMemoryStatusResponse
	if err := call("TraceSetting", &inference.TraceSettingRequest{}, &trace); err != nil {
		return err
	}
	if err := call("LogSettings", &inference.LogSettingsRequest{}, &log); err != nil {
		return err
	}
	if err := call("SystemSharedMemoryStatus", &inference.SystemSharedMemoryStatusRequest{}, &system); err != nil {
		return err
	}
	if err := call("CudaSharedMemoryStatus", &inference.CudaSharedMemoryStatusRequest{}, &cuda); err != nil {
		return err
	}
	if err := call("SystemSharedMemoryUnregister", &inference.SystemSharedMemoryUnregisterRequest{}, &inference.SystemSharedMemoryUnregisterResponse{}); err != nil {
		return err
	}
	if err := call("CudaSharedMemoryUnregister", &inference.CudaSharedMemoryUnregisterRequest{}, &inference.CudaSharedMemoryUnregisterResponse{}); err != nil {
		return err
	}
	strange := call("SystemSharedMemoryRegister", &inference.SystemSharedMemoryRegisterRequest{Name: "r", Key: "/none", ByteSize: 8}, &inference.SystemSharedMemoryRegisterResponse{})
	gpu := call("CudaSharedMemoryRegister", &inference.CudaSharedMemoryRegisterRequest{Name: "r"}, &inference.CudaSharedMemoryRegisterResponse{})
	seen := len(trace.GetSettings()) > 3 && len(log.GetSettings()) > 3 && strange != nil && gpu != nil
	return want(seen, &trace)
}

func unary() error {
	var answer inference.ModelInferResponse
	if err := call("ModelInfer", infer("plain", "hi", "7"), &answer); err != nil {
		return err
	}
	seen := answer.GetId() == "7" && string(answer.GetRawOutputContents()[0][4:]) == "HI"
	return want(seen, &answer)
}

func failures() error {
	err := call("ModelInfer", infer("nobody", "hi", ""), &inference.ModelInferResponse{})
	if status.Code(err) != codes.InvalidArgument {
		return fmt.Errorf("unknown model: %v", err)
	}
	err = call("ModelInfer", infer("tokens", "hi", ""), &inference.ModelInferResponse{})
	return want(status.Code(err) == codes.Unimplemented, err)
}

func opened(ctx context.Context) (grpc.ClientStream, error) {
	description := grpc.StreamDesc{StreamName: "ModelStreamInfer", ServerStreams: true, ClientStreams: true}
	return connection.NewStream(ctx, &description, service+"ModelStreamInfer")
}

func stream() error {
	ctx, done := context.WithTimeout(context.Background(), 20*time.Second)
	defer done()
	both, err := opened(ctx)
	if err != nil {
		return err
	}
	request := infer("tokens", "one two three", "s")
	request.Parameters = map[string]*inference.InferParameter{
		"triton_enable_empty_final_response": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: true}},
	}
	for _, one := range []*inference.ModelInferRequest{request, infer("nobody", "x", "e")} {
		if err := both.SendMsg(one); err != nil {
			return err
		}
	}
	if err := both.CloseSend(); err != nil {
		return err
	}
	answers, finals, errors := 0, 0, 0
	for {
		var answer inference.ModelStreamInferResponse
		err := both.RecvMsg(&answer)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if answer.GetErrorMessage() != "" {
			errors++
		} else if answer.GetInferResponse().GetParameters()["triton_final_response"].GetBoolParam() {
			finals++
		} else {
			answers++
		}
	}
	return want(answers == 2 && finals == 1 && errors == 1, []int{answers, finals, errors})
}

func cancel() error {
	ctx, done := context.WithCancel(context.Background())
	both, err := opened(ctx)
	if err != nil {
		return err
	}
	if err := both.SendMsg(infer("tokens", "one two", "")); err != nil {
		return err
	}
	if err := both.RecvMsg(&inference.ModelStreamInferResponse{}); err != nil {
		return err
	}
	done()
	for err == nil {
		err = both.RecvMsg(&inference.ModelStreamInferResponse{})
	}
	return want(status.Code(err) == codes.Canceled, err)
}

func main() {
	var err error
	connection, err = grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	checks := []struct {
		name  string
		check func() error
	}{
		{"state", state}, {"about", about}, {"repository", repository}, {"settings", settings},
		{"infer", unary}, {"errors", failures}, {"stream", stream}, {"cancel", cancel},
	}
	for _, one := range checks {
		seen := map[string]string{"check": one.name}
		if err := one.check(); err != nil {
			seen["error"] = err.Error()
		}
		line, _ := json.Marshal(seen)
		fmt.Println(string(line))
	}
}
