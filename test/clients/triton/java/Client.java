// What does a client of Java make of a Triton server? Each method of the protocol once, by messages that protoc made of our table
// of fields. Prints a line of JSON per check.
//
//   java Client HOST PORT
import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import inference.Inference.*;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public class Client {
  static ManagedChannel channel;

  interface Check {
    Object run() throws Exception;
  }

  static <A extends Message, B extends Message> MethodDescriptor<A, B> method(
      String name, MethodDescriptor.MethodType type, A asked, B answered) {
    return MethodDescriptor.<A, B>newBuilder()
        .setType(type)
        .setFullMethodName("inference.GRPCInferenceService/" + name)
        .setRequestMarshaller(ProtoUtils.marshaller(asked))
        .setResponseMarshaller(ProtoUtils.marshaller(answered))
        .build();
  }

  static <B extends Message> B call(String name, Message request, B answered) {
    MethodDescriptor<Message, B> method =
        method(name, MethodDescriptor.MethodType.UNARY, request.getDefaultInstanceForType(), answered);
    return ClientCalls.blockingUnaryCall(
        channel, method, CallOptions.DEFAULT.withDeadlineAfter(20, TimeUnit.SECONDS), request);
  }

  static ByteString text(String said) {
    byte[] bytes = said.getBytes(StandardCharsets.UTF_8);
    ByteBuffer all = ByteBuffer.allocate(4 + bytes.length).order(ByteOrder.LITTLE_ENDIAN);
    all.putInt(bytes.length).put(bytes).flip();
    return ByteString.copyFrom(all);
  }

  static ModelInferRequest infer(String model, String said, String id) {
    return ModelInferRequest.newBuilder()
        .setModelName(model)
        .setId(id)
        .addInputs(
            ModelInferRequest.InferInputTensor.newBuilder().setName("text_input").setDatatype("BYTES").addShape(1))
        .addRawInputContents(text(said))
        .build();
  }

  static Object state() {
    return call("ServerLive", ServerLiveRequest.getDefaultInstance(), ServerLiveResponse.getDefaultInstance()).getLive()
        && call("ServerReady", ServerReadyRequest.getDefaultInstance(), ServerReadyResponse.getDefaultInstance())
            .getReady()
        && call(
                "ModelReady",
                ModelReadyRequest.newBuilder().setName("plain").build(),
                ModelReadyResponse.getDefaultInstance())
            .getReady();
  }

  static Object about() {
    ServerMetadataResponse server =
        call(
            "ServerMetadata",
            ServerMetadataRequest.getDefaultInstance(),
            ServerMetadataResponse.getDefaultInstance());
    ModelMetadataResponse model =
        call(
            "ModelMetadata",
            ModelMetadataRequest.newBuilder().setName("plain").build(),
            ModelMetadataResponse.getDefaultInstance());
    ModelConfigResponse config =
        call(
            "ModelConfig",
            ModelConfigRequest.newBuilder().setName("tokens").build(),
            ModelConfigResponse.getDefaultInstance());
    ModelStatisticsResponse statistics =
        call(
            "ModelStatistics",
            ModelStatisticsRequest.newBuilder().setName("plain").build(),
            ModelStatisticsResponse.getDefaultInstance());
    return server.getName().equals("triton")
        && model.getPlatform().equals("python")
        && config.getConfig().getModelTransactionPolicy().getDecoupled()
        && statistics.getModelStats(0).getName().equals("plain");
  }

  static Object repository() {
    RepositoryIndexResponse index =
        call(
            "RepositoryIndex",
            RepositoryIndexRequest.getDefaultInstance(),
            RepositoryIndexResponse.getDefaultInstance());
    call(
        "RepositoryModelLoad",
        RepositoryModelLoadRequest.newBuilder().setModelName("batched").build(),
        RepositoryModelLoadResponse.getDefaultInstance());
    call(
        "RepositoryModelUnload",
        RepositoryModelUnloadRequest.newBuilder().setModelName("batched").build(),
        RepositoryModelUnloadResponse.getDefaultInstance());
    return index.getModelsCount() > 2;
  }

  static Object settings() {
    TraceSettingResponse trace =
        call("TraceSetting", TraceSettingRequest.getDefaultInstance(), TraceSettingResponse.getDefaultInstance());
    LogSettingsResponse log =
        call("LogSettings", LogSettingsRequest.getDefaultInstance(), LogSettingsResponse.getDefaultInstance());
    call(
        "SystemSharedMemoryStatus",
        SystemSharedMemoryStatusRequest.getDefaultInstance(),
        SystemSharedMemoryStatusResponse.getDefaultInstance());
    call(
        "CudaSharedMemoryStatus",
        CudaSharedMemoryStatusRequest.getDefaultInstance(),
        CudaSharedMemoryStatusResponse.getDefaultInstance());
    return trace.getSettingsCount() > 3 && log.getSettingsCount() > 3;
  }

  static Object unary() {
    ModelInferResponse answer = call("ModelInfer", infer("plain", "hi", "7"), ModelInferResponse.getDefaultInstance());
    return answer.getId().equals("7") && answer.getRawOutputContents(0).substring(4).toStringUtf8().equals("HI");
  }

  static Object errors() {
    try {
      call("ModelInfer", infer("tokens", "hi", ""), ModelInferResponse.getDefaultInstance());
      return "it was answered";
    } catch (StatusRuntimeException error) {
      return error.getStatus().getCode() == Status.Code.UNIMPLEMENTED;
    }
  }

  /** Answers and errors as they come, then the status. */
  static StreamObserver<ModelInferRequest> opened(
      ClientCall<ModelInferRequest, ModelStreamInferResponse> call, BlockingQueue<Object> came) {
    return ClientCalls.asyncBidiStreamingCall(
        call,
        new StreamObserver<ModelStreamInferResponse>() {
          public void onNext(ModelStreamInferResponse answer) {
            came.add(answer);
          }

          public void onError(Throwable why) {
            came.add(Status.fromThrowable(why));
          }

          public void onCompleted() {
            came.add(Status.OK);
          }
        });
  }

  static ClientCall<ModelInferRequest, ModelStreamInferResponse> streaming() {
    return channel.newCall(
        method(
            "ModelStreamInfer",
            MethodDescriptor.MethodType.BIDI_STREAMING,
            ModelInferRequest.getDefaultInstance(),
            ModelStreamInferResponse.getDefaultInstance()),
        CallOptions.DEFAULT.withDeadlineAfter(20, TimeUnit.SECONDS));
  }

  static Object stream() throws Exception {
    BlockingQueue<Object> came = new LinkedBlockingQueue<>();
    StreamObserver<ModelInferRequest> sent = opened(streaming(), came);
    sent.onNext(infer("tokens", "one two three", "s"));
    sent.onNext(infer("nobody", "x", "e"));
    sent.onCompleted();
    int answers = 0;
    int errors = 0;
    for (Object one = came.take(); !(one instanceof Status); one = came.take()) {
      if (((ModelStreamInferResponse) one).getErrorMessage().isEmpty()) answers++;
      else errors++;
    }
    return answers == 3 && errors == 1 ? true : answers + " answers, " + errors + " errors";
  }

  static Object cancel() throws Exception {
    BlockingQueue<Object> came = new LinkedBlockingQueue<>();
    ClientCall<ModelInferRequest, ModelStreamInferResponse> call = streaming();
    opened(call, came).onNext(infer("tokens", "one two", ""));
    came.take();
    call.cancel("enough", null);
    Object last = came.take();
    while (!(last instanceof Status)) last = came.take();
    return ((Status) last).getCode() == Status.Code.CANCELLED;
  }

  static void check(String name, Check check) {
    String error = null;
    try {
      Object seen = check.run();
      if (!Boolean.TRUE.equals(seen)) error = String.valueOf(seen);
    } catch (Throwable why) {
      error = why.toString();
    }
    String more = error == null ? "" : ",\"error\":\"" + error.replaceAll("[\"\\\\\n]", "'") + "\"";
    System.out.println("{\"check\":\"" + name + "\"" + more + "}");
  }

  public static void main(String[] words) {
    channel = NettyChannelBuilder.forAddress(words[0], Integer.parseInt(words[1])).usePlaintext().build();
    check("state", Client::state);
    check("about", Client::about);
    check("repository", Client::repository);
    check("settings", Client::settings);
    check("infer", Client::unary);
    check("errors", Client::errors);
    check("stream", Client::stream);
    check("cancel", Client::cancel);
    channel.shutdownNow();
  }
}
