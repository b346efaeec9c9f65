/*
 * Serves streams of tokens from a bare loop over epoll, as the lower bound for the cost of a stream. It has one thread, one
 * `send` per event, and allocates nothing per event. It replays a recorded answer (`--template`), so its bytes are those of the
 * server that it is compared with. Every stream gets one event per step.
 *
 *   anchor --port 9000 --template file [--events n] [--wait streams] [--period-us p] [--log file]
 *
 * Template: u32 count, u32 length of each unit, then the bytes of the units. Unit 0 has the response head, the last one the end.
 * `--events`: units per answer. The middle units are repeated or cut. `--wait`: the first step waits for this many streams.
 * `--period-us`: time between two steps. 0: steps follow each other at full speed.
 * `--log`: file that receives f64 triples (due, start, end of writing) at SIGTERM, in microseconds of CLOCK_MONOTONIC.
 */
#include "shared.h"
#include <sys/timerfd.h>

#define STREAMS 20000
#define STEPS 4000000
#define HEAD 4096

typedef struct {
  int fd, active, blocked;
  int used;         /* bytes of the request head in `head` */
  long body;        /* bytes of the request body that have not arrived */
  uint32_t at, due; /* next unit to send, and units due so far */
  uint32_t sent;    /* bytes of unit `at` that are sent */
  char head[HEAD];
} Stream;

static Stream *streams; /* by file descriptor */
static int *active, active_count;
static const char **unit_bytes;
static uint32_t *unit_length, units, events;
static double *steps;
static long step_count;
static int loop, listener;
static volatile sig_atomic_t stopped;

static void on_stop(int signal) {
  (void)signal;
  stopped = 1;
}

static void load(const char *path) {
  size_t length;
  char *bytes = slurp(path, &length);
  memcpy(&units, bytes, 4);
  unit_length = malloc(units * 4);
  unit_bytes = malloc(units * sizeof(char *));
  memcpy(unit_length, bytes + 4, units * 4);
  const char *at = bytes + 4 + units * 4;
  for (uint32_t i = 0; i < units; i++) unit_bytes[i] = at, at += unit_length[i];
}

/* Returns the index of the recorded unit to send as unit `at` of an answer of `events` units. */
static uint32_t recorded(uint32_t at) {
  if (at == 0) return 0;
  if (at == events - 1) return units - 1;
  return 1 + (at - 1) % (units - 2);
}

static void watch(Stream *s, int op, uint32_t what) {
  struct epoll_event event = {.events = what, .data.fd = s->fd};
  if (epoll_ctl(loop, op, s->fd, &event)) die("epoll_ctl");
}

static void leave(Stream *s) {
  if (!s->active) return;
  s->active = 0;
  for (int i = 0; i < active_count; i++)
    if (active[i] == s->fd) {
      active[i] = active[--active_count];
      break;
    }
}

static void drop(Stream *s) {
  leave(s);
  close(s->fd);
}

/* Sends the due units. Returns 0 if the stream is complete or closed, and thus removed from `active`. */
static int advance(Stream *s) {
  while (s->at < s->due) {
    uint32_t unit = recorded(s->at);
    ssize_t n = send(s->fd, unit_bytes[unit] + s->sent, unit_length[unit] - s->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN) return drop(s), 0;
    if (n > 0) s->sent += (uint32_t)n;
    if (s->sent < unit_length[unit]) {
      s->blocked = 1;
      watch(s, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
      return 1;
    }
    s->sent = 0;
    s->at++;
  }
  if (s->at == events) return leave(s), 0;
  return 1;
}

static void step(int paced) {
  for (int i = 0; i < active_count;) {
    Stream *s = &streams[active[i]];
    if (s->due < events && (paced || !s->blocked)) s->due++;
    i += s->blocked || advance(s);
  }
}

static void answer(Stream *s) {
  if (!strncmp(s->head, "GET", 3)) {
    static const char health[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    if (send(s->fd, health, sizeof health - 1, MSG_NOSIGNAL) < 0) drop(s);
    return;
  }
  s->active = 1;
  s->at = s->due = s->sent = 0;
  active[active_count++] = s->fd;
}

/* Reads request bytes. Keeps the head and only counts the bytes of the body. Clients must not pipeline requests. */
static void receive(Stream *s) {
  static char buffer[65536];
  for (;;) {
    char *to = s->body ? buffer : s->head + s->used;
    size_t room = s->body ? sizeof buffer : (size_t)(HEAD - 1 - s->used);
    ssize_t n = room ? recv(s->fd, to, room, MSG_DONTWAIT) : 0;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return drop(s);
    if (s->body) {
      s->body -= n;
    } else {
      s->used += (int)n;
      s->head[s->used] = 0;
      char *end = strstr(s->head, "\r\n\r\n");
      if (!end) continue;
      char *length = strcasestr(s->head, "\r\ncontent-length:");
      s->body = (length ? atol(length + 17) : 0) - (s->head + s->used - end - 4);
      s->used = 0;
    }
    if (s->body <= 0) {
      s->body = 0;
      answer(s);
    }
  }
}

static void join(void) {
  for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
    if (fd >= STREAMS) {
      close(fd);
      continue;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    Stream *s = &streams[fd];
    s->fd = fd;
    s->active = s->blocked = s->used = 0;
    s->body = 0;
    watch(s, EPOLL_CTL_ADD, EPOLLIN);
  }
}

static void arm(int timer, int64_t at) {
  struct itimerspec spec = {.it_value = {at / 1000000000LL, at % 1000000000LL}};
  timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

int main(int argc, char **argv) {
  load(option(argc, argv, "--template", "template"));
  events = (uint32_t)number(argc, argv, "--events", units);
  long wait = number(argc, argv, "--wait", 1);
  int64_t period = number(argc, argv, "--period-us", 0) * 1000;
  const char *log = option(argc, argv, "--log", NULL);
  streams = calloc(STREAMS, sizeof(Stream));
  active = calloc(STREAMS, sizeof(int));
  if (log) steps = malloc(STEPS * 3 * sizeof(double));
  struct sigaction action = {.sa_handler = on_stop};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);

  listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number(argc, argv, "--port", 9000))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) die("listen");
  loop = epoll_create1(0);
  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
  epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event);
  event.data.fd = timer;
  epoll_ctl(loop, EPOLL_CTL_ADD, timer, &event);

  int running = 0;
  int64_t due = 0;
  while (!stopped) {
    struct epoll_event ready[512];
    int count = epoll_wait(loop, ready, 512, running && !period ? 0 : -1);
    int ticked = 0;
    for (int i = 0; i < count; i++) {
      int fd = ready[i].data.fd;
      if (fd == listener) join();
      else if (fd == timer) {
        uint64_t times;
        ticked = read(timer, &times, 8) == 8;
      } else {
        Stream *s = &streams[fd];
        if (ready[i].events & EPOLLOUT) {
          s->blocked = 0;
          watch(s, EPOLL_CTL_MOD, EPOLLIN);
          if (s->active) advance(s);
        }
        if (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(s);
      }
    }
    if (!running && active_count >= wait) {
      running = 1;
      due = now_ns() + period;
      if (period) arm(timer, due);
      continue;
    }
    if (!running || (period && !ticked)) continue;
    int64_t start = now_ns();
    step(period != 0);
    if (steps && step_count < STEPS) {
      double *row = steps + 3 * step_count++;
      row[0] = (double)(period ? due : start) / 1000;
      row[1] = (double)start / 1000;
      row[2] = (double)now_ns() / 1000;
    }
    running = active_count > 0;
    due += period;
    if (period && running) arm(timer, due);
  }
  if (steps) {
    FILE *file = fopen(log, "wb");
    if (!file || fwrite(steps, 24, (size_t)step_count, file) != (size_t)step_count) die(log);
    fclose(file);
  }
  return 0;
}
