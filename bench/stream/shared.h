/* Shared code of the three C programs of the bench: the clock, options, files, and the exit after an error. */
#pragma once
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static inline void die(const char *what) {
  perror(what);
  exit(1);
}

/* Returns CLOCK_MONOTONIC in nanoseconds, which is the same in every process of the machine. */
static inline int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Returns the value after `--name` on the command line, or `fallback` if the option is missing. */
static inline const char *option(int argc, char **argv, const char *name, const char *fallback) {
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], name)) return argv[i + 1];
  return fallback;
}

static inline long number(int argc, char **argv, const char *name, long fallback) {
  const char *text = option(argc, argv, name, NULL);
  return text ? strtol(text, NULL, 10) : fallback;
}

/* Reads a whole file into memory. Sets `length` to its length. */
static inline char *slurp(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  if (!file) die(path);
  fseek(file, 0, SEEK_END);
  *length = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*length + 1);
  if (!bytes || fread(bytes, 1, *length, file) != *length) die(path);
  bytes[*length] = 0;
  fclose(file);
  return bytes;
}
