package org.testcontainers.containers.wait.strategy;

/** Stands in for the class of Testcontainers 2.0.2. */
public final class Wait {
  private Wait() {}

  public static HttpWaitStrategy forHttp(String path) {
    return new HttpWaitStrategy(path);
  }
}
