// Tests a client of streams: starts a server, orders a fault in an answer, and checks that the client reports an error.
import static org.junit.jupiter.api.Assertions.*;
import java.io.IOException;
import java.net.URI;
import java.net.http.*;
import java.nio.file.*;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StreamTest {
  @Test
  void aStreamThatBreaksOffIsAnError(@TempDir Path folder) throws Exception {
    Path ready = folder.resolve("ready.json");
    String command = System.getenv().getOrDefault("UNDERSTUDY", "understudy")
        + " serve --port 0 --timing none --exit-with-parent --ready-file " + ready;
    Process server = new ProcessBuilder(command.split(" ")).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
    while (!Files.exists(ready) && server.isAlive()) Thread.sleep(50);
    String url = Files.readString(ready).replaceAll("(?s).*\"url\":\"([^\"]*)\".*", "$1");
    assertTrue(complete(url, "B4").contains("[DONE]"));
    assertThrows(IOException.class, () -> complete(url, "E6@e5"));
    server.destroy();
  }
  /** The client under test. Bodies of requests that ask for an upgrade to HTTP/2 get lost. */
  static String complete(String url, String fault) throws Exception {
    String body = "{\"prompt\": \"Hello\", \"stream\": true, \"understudy\": {\"fault\": \"" + fault + "\"}}";
    var request = HttpRequest.newBuilder(URI.create(url + "/v1/completions")).version(HttpClient.Version.HTTP_1_1)
        .header("content-type", "application/json").POST(HttpRequest.BodyPublishers.ofString(body)).build();
    return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body();
  }
}
