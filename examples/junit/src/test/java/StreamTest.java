// A client of streams against a server that disturbs them: start, order a fault, see the client fail, stop.
import static org.junit.jupiter.api.Assertions.*;

import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.net.URI;
import java.net.http.*;
import java.nio.file.*;
import org.junit.jupiter.api.*;
import org.junit.jupiter.api.io.TempDir;

class StreamTest {
  static Process server;
  static String url;

  /** The server that UNDERSTUDY names: a command, by default the one on the path. */
  @BeforeAll
  static void start(@TempDir Path folder) throws Exception {
    Path ready = folder.resolve("ready.json");
    String words = " serve --port 0 --timing none --exit-with-parent --ready-file " + ready;
    String command = System.getenv().getOrDefault("UNDERSTUDY", "understudy");
    server = new ProcessBuilder((command + words).split(" ")).redirectOutput(Redirect.DISCARD).start();
    while (!Files.exists(ready) && server.isAlive()) Thread.sleep(50);
    url = Files.readString(ready).replaceAll("(?s).*\"url\":\"([^\"]*)\".*", "$1");
  }

  @AfterAll
  static void stop() throws Exception {
    server.destroy();
    server.waitFor();
  }

  /** The client under test: it reads a stream to its end. Bodies of requests that ask for an upgrade to HTTP/2 get lost. */
  static String complete(String fault) throws Exception {
    String body = "{\"prompt\": \"Hello\", \"stream\": true, \"understudy\": {\"fault\": \"" + fault + "\"}}";
    var request = HttpRequest.newBuilder(URI.create(url + "/v1/completions"))
        .header("content-type", "application/json").version(HttpClient.Version.HTTP_1_1)
        .POST(HttpRequest.BodyPublishers.ofString(body)).build();
    return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body();
  }

  @Test
  void eventsThatAreSplitOverSegmentsAreWhole() throws Exception {
    assertTrue(complete("B4").contains("[DONE]"));
  }

  @Test
  void aStreamThatBreaksOffIsAnError() {
    assertThrows(IOException.class, () -> complete("E6@e5"));
  }
}
