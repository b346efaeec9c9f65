import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

class ServerTest {
  public static void main(String[] args) throws Exception {
    try (GenericContainer<?> server =
        new GenericContainer<>(DockerImageName.parse("llm-understudy:0.2.0"))
            .withCommand("serve", "--host", "0.0.0.0", "--timing", "none", "--served-model-name", "m")
            .withExposedPorts(8000)
            .waitingFor(Wait.forHttp("/health").forPort(8000))) {
      server.start();
      URI url = URI.create("http://" + server.getHost() + ":" + server.getMappedPort(8000) + "/v1/models");
      HttpRequest request = HttpRequest.newBuilder(url).build();
      String models = HttpClient.newHttpClient().send(request, BodyHandlers.ofString()).body();
      if (!models.contains("\"id\":\"m\"")) throw new AssertionError(models);
    }
  }
}
