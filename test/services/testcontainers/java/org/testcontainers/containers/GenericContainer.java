package org.testcontainers.containers;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.testcontainers.containers.wait.strategy.HttpWaitStrategy;
import org.testcontainers.utility.DockerImageName;

/** Stands in for a container of Testcontainers 2.0.2, with the command of UNDERSTUDY in place of the image. */
public class GenericContainer<SELF extends GenericContainer<SELF>> implements AutoCloseable {
  private List<String> command = List.of();
  private int exposed;
  private HttpWaitStrategy strategy;
  private Process process;
  private int mapped;

  public GenericContainer(DockerImageName image) {}

  @SuppressWarnings("unchecked")
  private SELF self() {
    return (SELF) this;
  }

  public SELF withCommand(String... words) {
    command = List.of(words);
    return self();
  }

  public SELF withExposedPorts(Integer... ports) {
    exposed = ports[0];
    return self();
  }

  public SELF waitingFor(HttpWaitStrategy strategy) {
    this.strategy = strategy;
    return self();
  }

  public void start() {
    try {
      Path ready = Files.createTempDirectory("understudy-container-").resolve("ready.json");
      List<String> words = new ArrayList<>(List.of(System.getenv("UNDERSTUDY").split(" ")));
      words.addAll(command);
      words.addAll(List.of("--port=0", "--host=127.0.0.1", "--exit-with-parent", "--ready-file=" + ready));
      process =
          new ProcessBuilder(words)
              .redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
      while (!Files.exists(ready)) {
        if (!process.isAlive()) throw new IllegalStateException("the command ended");
        Thread.sleep(20);
      }
      String url = Files.readString(ready).replaceAll(".*\"url\":\"([^\"]*)\".*\\s*", "$1");
      Files.delete(ready);
      Files.delete(ready.getParent());
      mapped = URI.create(url).getPort();
      if (strategy.port != exposed) throw new IllegalStateException("the port is not exposed");
      URI.create(url + strategy.path).toURL().openStream().close();
    } catch (IOException | InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }

  public String getHost() {
    return "127.0.0.1";
  }

  public Integer getMappedPort(int port) {
    if (port != exposed) throw new IllegalArgumentException();
    return mapped;
  }

  @Override
  public void close() {
    if (process == null) return;
    process.destroy();
    try {
      process.waitFor();
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }
}
