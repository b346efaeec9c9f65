package org.testcontainers.utility;

/** Stands in for the class of Testcontainers 2.0.2. */
public final class DockerImageName {
  private DockerImageName() {}

  public static DockerImageName parse(String name) {
    if (!name.startsWith("llm-understudy:")) throw new IllegalArgumentException(name);
    return new DockerImageName();
  }
}
