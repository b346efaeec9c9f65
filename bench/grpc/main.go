// Serves gRPC calls like a Triton server, and loads such a server. bench/grpc.ts compares our server with this one.
//
//	anchor serve                      prints its port; uses code that protoc-gen-go generates from our table of fields
//	anchor load ADDR MODE CONNECTIONS STREAMS SECONDS SETTLE < request
//
// SETTLE above 0: the streams are paced. The client skips their first SETTLE seconds and measures the time between answers. The
// request's second and third tensor are the number of answers and the milliseconds between them. The client neither encodes
// nor decodes messages.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"bench/grpc/inference"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	unary  = "/inference.GRPCInferenceService/ModelInfer"
	stream = "/inference.GRPCInferenceService/ModelStreamInfer"
)

type raw struct{}

func (raw) Marshal(message any) ([]byte, error) { return *(message.(*[]byte)), nil }
func (raw) Unmarshal(bytes []byte, message any) error {
	into := message.(*[]byte)
	*into = append((*into)[:0], bytes...)
	return nil
}
func (raw) Name() string { return "proto" }

// number returns the integer in a tensor of the request, or 0 if the request has no such tensor.
func number(request *inference.ModelInferRequest, at int) int {
	if contents := request.GetRawInputContents(); at < len(contents) {
		return int(binary.LittleEndian.Uint32(contents[at]))
	}
	return 0
}

func answer(request *inference.ModelInferRequest) *inference.ModelInferResponse {
	return &inference.ModelInferResponse{
		ModelName:    request.GetModelName(),
		ModelVersion: "1",
		Id:           request.GetId(),
		Outputs: []*inference.ModelInferResponse_InferOutputTensor{
			{Name: "text_output", Datatype: "BYTES", Shape: []int64{1}},
		},
		RawOutputContents: [][]byte{[]byte("\x06\x00\x00\x00 marks")},
	}
}

func serve(port string) {
	handler := func(_ any, call grpc.ServerStream) error {
		var request inference.ModelInferRequest
		method, _ := grpc.MethodFromServerStream(call)
		if err := call.RecvMsg(&request); err != nil {
			return err
		}
		if method == unary {
			return call.SendMsg(answer(&request))
		}
		count, gap := number(&request, 1), time.Duration(number(&request, 2))*time.Millisecond
		due := time.Now()
		for i := 0; i < count; i++ {
			if gap > 0 {
				due = due.Add(gap)
				time.Sleep(time.Until(due))
			}
			made := answer(&request)
			made.Parameters = map[string]*inference.InferParameter{
				"triton_final_response": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: i == count-1}},
			}
			if err := call.SendMsg(&inference.ModelStreamInferResponse{InferResponse: made}); err != nil {
				return err
			}
		}
		return nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(handler))
	panic(server.Serve(listener))
}

func load(address, mode string, connections, streams int, seconds, settle float64) {
	request, _ := io.ReadAll(os.Stdin)
	from := time.Now().Add(time.Duration(settle * float64(time.Second)))
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds*float64(time.Second)))
	defer cancel()
	var answers atomic.Int64
	var failed atomic.Int64
	var mutex sync.Mutex
	var gaps []float64
	var group sync.WaitGroup
	conns := make([]*grpc.ClientConn, connections)
	for i := range conns {
		made, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
		if err != nil {
			panic(err)
		}
		conns[i] = made
	}
	note := func(err error) {
		if ctx.Err() == nil && status.Code(err) != codes.DeadlineExceeded && failed.Add(1) == 1 {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	one := func(conn *grpc.ClientConn) {
		defer group.Done()
		var answer []byte
		var own []float64
		for ctx.Err() == nil {
			if mode == "unary" {
				if err := conn.Invoke(ctx, unary, &request, &answer); err == nil {
					answers.Add(1)
				} else {
					note(err)
				}
				continue
			}
			call, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, stream)
			if err != nil {
				continue
			}
			call.SendMsg(&request)
			call.CloseSend()
			last := time.Time{}
			for {
				if err := call.RecvMsg(&answer); err != nil {
					if err != io.EOF {
						note(err)
					}
					break
				}
				if settle == 0 {
					answers.Add(1)
					continue
				}
				if now := time.Now(); now.After(from) {
					answers.Add(1)
					if !last.IsZero() {
						own = append(own, now.Sub(last).Seconds()*1000)
					}
					last = now
				}
			}
		}
		mutex.Lock()
		gaps = append(gaps, own...)
		mutex.Unlock()
	}
	for i := 0; i < streams; i++ {
		group.Add(1)
		go one(conns[i%connections])
	}
	group.Wait()
	sort.Float64s(gaps)
	at := func(share float64) float64 {
		if len(gaps) == 0 {
			return 0
		}
		return gaps[int(share*float64(len(gaps)-1))]
	}
	fmt.Printf("{\"answers\":%d,\"failed\":%d,\"p50Ms\":%.3f,\"p99Ms\":%.3f}\n", answers.Load(), failed.Load(), at(0.5), at(0.99))
}

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[3])
		return
	}
	connections, _ := strconv.Atoi(os.Args[4])
	streams, _ := strconv.Atoi(os.Args[5])
	seconds, _ := strconv.ParseFloat(os.Args[6], 64)
	settle, _ := strconv.ParseFloat(os.Args[7], 64)
	load(os.Args[2], os.Args[3], connections, streams, seconds, settle)
}
