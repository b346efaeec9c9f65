package org.testcontainers.containers.wait.strategy;

/** Stands in for the class of Testcontainers 2.0.2. */
public class HttpWaitStrategy {
  public final String path;
  public int port;

  HttpWaitStrategy(String path) {
    this.path = path;
  }

  public HttpWaitStrategy forPort(int port) {
    this.port = port;
    return this;
  }
}
