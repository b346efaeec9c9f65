/* java.net.http alone: an answer in one piece, the same streamed line by line, errors, a stream that is left. */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

class Client {
  static final String ABORTS = "understudy_requests_total{outcome=\"abort\"}";
  // By default it asks for HTTP/2 in a header that uvicorn, too, does not follow.
  static final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  static String url;

  interface Check {
    void run() throws Exception;
  }

  static HttpRequest chat(String fields) {
    String body = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"seed\":1," + fields + "}";
    return HttpRequest.newBuilder(URI.create(url + "/v1/chat/completions"))
        .header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofString(body))
        .build();
  }

  static void wanted(boolean holds, String otherwise) {
    if (!holds) throw new AssertionError(otherwise);
  }

  /** Values of the first member of that name in each text, escapes as they are. */
  static String content(String json) {
    Matcher found = Pattern.compile("\"content\":\"((?:[^\"\\\\]|\\\\.)*)\"").matcher(json);
    return found.find() ? found.group(1) : "";
  }

  static double sample(String series) throws Exception {
    HttpRequest page = HttpRequest.newBuilder(URI.create(url + "/metrics")).build();
    String line = client.send(page, HttpResponse.BodyHandlers.ofLines()).body()
        .filter(one -> one.startsWith(series)).findFirst().orElseThrow();
    return Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1));
  }

  static void results() throws Exception {
    String fields = "\"model\":\"m\",\"max_tokens\":20,\"ignore_eos\":true";
    HttpResponse<String> whole = client.send(chat(fields), HttpResponse.BodyHandlers.ofString());
    wanted(whole.statusCode() == 200 && !content(whole.body()).isEmpty(), whole.body());
    String streamed = client.send(chat(fields + ",\"stream\":true"), HttpResponse.BodyHandlers.ofLines()).body()
        .filter(line -> line.startsWith("data: {")).map(Client::content).collect(Collectors.joining());
    wanted(streamed.equals(content(whole.body())), "whole " + content(whole.body()) + ", streamed " + streamed);
  }

  static void usage() throws Exception {
    String fields = "\"model\":\"m\",\"max_tokens\":9,\"ignore_eos\":true,\"stream\":true,"
        + "\"stream_options\":{\"include_usage\":true}";
    String all = client.send(chat(fields), HttpResponse.BodyHandlers.ofString()).body();
    wanted(all.contains("\"completion_tokens\":9") && all.endsWith("data: [DONE]\n\n"), all);
  }

  static void errors() throws Exception {
    HttpResponse<String> missing = client.send(chat("\"model\":\"nobody\""), HttpResponse.BodyHandlers.ofString());
    wanted(missing.statusCode() == 404 && missing.body().contains("\"type\":\"NotFoundError\""), missing.body());
    HttpResponse<String> bad =
        client.send(chat("\"model\":\"m\",\"temperature\":-1"), HttpResponse.BodyHandlers.ofString());
    wanted(bad.statusCode() == 400 && bad.body().contains("\"param\":\"temperature\""), bad.body());
  }

  static void aborts() throws Exception {
    double before = sample(ABORTS);
    String fields = "\"model\":\"m\",\"max_tokens\":5000,\"ignore_eos\":true,\"stream\":true";
    var stream = client.send(chat(fields), HttpResponse.BodyHandlers.ofInputStream()).body();
    BufferedReader lines = new BufferedReader(new InputStreamReader(stream));
    for (int i = 0; i < 3; i++) wanted(lines.readLine() != null, "the stream ended");
    lines.close();
    for (int i = 0; i < 300; i++) {
      if (sample("vllm:num_requests_running") == 0 && sample(ABORTS) == before + 1) return;
      Thread.sleep(10);
    }
    wanted(false, "the request goes on");
  }

  static void report(String check, Check work) {
    String error = "";
    try {
      work.run();
    } catch (Exception | AssertionError failed) {
      error = ",\"error\":\"" + failed.toString().replaceAll("[\\\\\"\\p{Cntrl}]", " ") + "\"";
    }
    System.out.println("{\"check\":\"" + check + "\"" + error + "}");
  }

  public static void main(String[] words) {
    url = words[0];
    report("results", Client::results);
    report("usage", Client::usage);
    report("errors", Client::errors);
    report("aborts", Client::aborts);
  }
}
