/*
 * Measures how late this machine wakes a process that does nothing else. Every reported lateness is compared with this one.
 *
 *   control --period-us 20000 --seconds 10   prints {"wakes","p50Us","p90Us","p99Us","maxUs"}
 */
#include "shared.h"

static int ascending(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

int main(int argc, char **argv) {
  int64_t period = number(argc, argv, "--period-us", 20000) * 1000;
  long wakes = number(argc, argv, "--seconds", 10) * 1000000000L / period;
  int64_t *late = calloc((size_t)wakes, sizeof *late), due = now_ns();
  for (long i = 0; i < wakes; i++) {
    due += period;
    struct timespec at = {due / 1000000000LL, due % 1000000000LL};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL)) continue;
    late[i] = now_ns() - due;
  }
  qsort(late, (size_t)wakes, sizeof *late, ascending);
  double at[] = {0.5, 0.9, 0.99, 1};
  const char *name[] = {"p50Us", "p90Us", "p99Us", "maxUs"};
  printf("{\"wakes\":%ld", wakes);
  for (int i = 0; i < 4; i++) printf(",\"%s\":%.1f", name[i], (double)late[(long)((double)(wakes - 1) * at[i])] / 1000);
  printf("}\n");
  return 0;
}
