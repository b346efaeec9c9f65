/*
 * Reads many streams and measures when their events arrive. This client of the benches opens connections, sends a request on
 * each, takes the time after every `recv`, and counts events, which end with an empty line. Prints one JSON object.
 *
 *   reader --port 8000 --body file [--path /v1/chat/completions] [--streams 1] [--requests 1]
 *
 * `@@@@@@` in the body becomes the number of the connection, so that prompts differ.
 * `--requests n`: requests per connection, one after the other.
 * `--ramp n`: at most n new connections per millisecond, or per `--every-ms m`.
 * `--together 1`: open all connections before sending the first request.
 * `--duration-ms d`: end after this time. Streams that are still open are counted as `open`.
 * `--stall-ms s`: after its first event a connection reads nothing for this time.
 * `--rcvbuf b`: receive buffer of a socket. If it is small, the server notices a stall sooner.
 * `--cut k --ending fin|rst|half`: after k events read the rest and close, close with RST, or shut down writing.
 * `--settle-ms s`: count events, bytes, reads and gaps only after this time.
 * `--awake 1`: poll for events and never sleep, so that no sender pays for waking the process. `slept` in the result is the
 * number of times that the process slept (voluntary context switches).
 * `--gaps 1`: report percentiles of the time between two reads with events.
 * `--per-stream file`: write f64 rows (sent, first event, last event, events, complete) of each connection's last request.
 * `--stamps file --stamps-most n`: write for each connection's last request an f64 count, and as many f64 times of its events.
 * `--dump file`: write for each read of connection 0 f64 microseconds, f64 length, and the bytes.
 */
#include "shared.h"

#define PLACE "@@@@@@"
#define GAPS 2000000 /* microseconds */

enum { CLOSED, CONNECTING, READY, HEAD, BODY, STALLED };

typedef struct {
  int fd, state, status, requests;
  long left;               /* bytes left of a body with Content-Length, or -1 for a chunked body */
  uint32_t tail;           /* the last four bytes */
  uint32_t older;          /* the four bytes before `tail` */
  int64_t sent, first, last, wake;
  long events;
  int complete, used;
  double *stamps;
  char head[1024];
} Stream;

static struct {
  long completed, events, bytes, recvs, errors, cut, closed, refused;
} total;
static Stream *streams;
static long streams_max, requests, stall, cut_after, live, stamps_most;
static const char *ending, *path, *body;
static size_t body_length;
static char *request, error_text[200];
static size_t request_length, place;
static int loop, gaps_wanted, rcvbuf, statuses[600];
static uint32_t *gaps;
static int64_t settle;
static int64_t began, first_event, last_event;
static FILE *dump;
static struct sockaddr_in address = {.sin_family = AF_INET};

static void build_request(void) {
  request = malloc(body_length + 512);
  int head = sprintf(request,
                     "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                     "Authorization: Bearer none\r\nContent-Length: %zu\r\n\r\n",
                     path, body_length);
  memcpy(request + head, body, body_length);
  request_length = (size_t)head + body_length;
  request[request_length] = 0;
  char *found = strstr(request + head, PLACE);
  place = found ? (size_t)(found - request) : 0;
}

static void watch(Stream *s, int op, uint32_t what) {
  struct epoll_event event = {.events = what, .data.u32 = (uint32_t)(s - streams)};
  if (epoll_ctl(loop, op, s->fd, &event)) die("epoll_ctl");
}

static void finish(Stream *s) {
  close(s->fd);
  s->state = CLOSED;
  live--;
}

static void connect_one(Stream *s) {
  s->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (s->fd < 0) die("socket");
  setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
  if (rcvbuf) setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof rcvbuf);
  s->state = CONNECTING;
  live++;
  watch(s, EPOLL_CTL_ADD, EPOLLOUT);
  if (connect(s->fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS) die("connect");
}

/* Sends the request. Waits while the socket's buffer is full, which rarely happens, because most requests are small. */
static void send_request(Stream *s) {
  char number[16];
  if (place) {
    snprintf(number, sizeof number, "%06u", (unsigned)(s - streams) % 1000000);
    memcpy(request + place, number, strlen(PLACE));
  }
  s->state = HEAD;
  s->used = s->complete = s->status = 0;
  s->tail = s->older = 0;
  s->events = 0;
  s->first = s->last = 0;
  s->sent = now_ns();
  for (size_t at = 0; at < request_length;) {
    ssize_t n = send(s->fd, request + at, request_length - at, MSG_NOSIGNAL);
    if (n > 0) at += (size_t)n;
    else if (errno == EAGAIN) usleep(200);
    else {
      total.errors++;
      return finish(s);
    }
  }
  watch(s, EPOLL_CTL_MOD, EPOLLIN);
}

static void leave(Stream *s) {
  total.cut++;
  if (!strcmp(ending, "half")) {
    shutdown(s->fd, SHUT_WR);
    return;
  }
  static char rest[65536];
  if (!strcmp(ending, "rst")) setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
  else
    while (recv(s->fd, rest, sizeof rest, MSG_DONTWAIT) > 0) continue; /* with unread bytes the kernel would send RST */
  finish(s);
}

static void completed(Stream *s) {
  s->complete = 1;
  total.completed++;
  statuses[s->status < 600 ? s->status : 0]++;
  if (++s->requests < requests) send_request(s);
  else finish(s);
}

/* Returns the number of events that end within these bytes, and keeps the last eight bytes for `chunks_ended`. */
static int count_events(Stream *s, const char *bytes, size_t length) {
  int found = 0;
  if (length && bytes[0] == '\n' && (s->tail & 0xff) == '\n') found++;
  for (const char *at = bytes, *end = bytes + length; (at = memchr(at, '\n', (size_t)(end - at))); at++)
    if (at + 1 < end && at[1] == '\n') found++;
  for (size_t i = length > 8 ? length - 8 : 0; i < length; i++) {
    s->older = s->older << 8 | s->tail >> 24;
    s->tail = s->tail << 8 | (uint8_t)bytes[i];
  }
  return found;
}

/* Reports whether the last bytes are "\n0\r\n\r\n", which end a chunked body. */
static int chunks_ended(const Stream *s) {
  return s->tail == 0x0d0a0d0au && (s->older & 0xffff) == 0x0a30u;
}

static void take(Stream *s, const char *bytes, size_t length, int64_t now) {
  if (s->state == HEAD) {
    size_t kept = sizeof s->head - 1 - (size_t)s->used;
    kept = kept < length ? kept : length;
    memcpy(s->head + s->used, bytes, kept);
    s->head[s->used + (int)kept] = 0;
    char *end = strstr(s->head, "\r\n\r\n");
    if (!end) {
      s->used += (int)kept;
      return;
    }
    s->status = atoi(s->head + 9);
    char *length_field = strcasestr(s->head, "\r\ncontent-length:");
    s->left = length_field && length_field < end ? atol(length_field + 17) : -1;
    s->state = BODY;
    size_t skipped = (size_t)(end + 4 - s->head) - (size_t)s->used;
    bytes += skipped;
    length -= skipped;
    if (s->status != 200) {
      total.refused++;
      if (!error_text[0]) snprintf(error_text, sizeof error_text, "%.*s", (int)length, bytes);
    }
  }
  int events = count_events(s, bytes, length);
  if (events) {
    if (!s->first) {
      s->first = now;
      if (stall) s->wake = now + stall, s->state = STALLED, watch(s, EPOLL_CTL_MOD, 0);
    } else if (gaps_wanted) {
      int64_t gap = (now - s->last) / 1000;
      gaps[gap < GAPS ? gap : GAPS - 1]++;
    }
    s->last = now;
    for (long i = s->events; stamps_most && i < s->events + events && i < stamps_most; i++) s->stamps[i] = (double)now / 1000;
    s->events += events;
    total.events += events;
    if (!first_event) first_event = now;
    last_event = now;
  }
  if (s->left >= 0 ? (s->left -= (long)length) <= 0 : chunks_ended(s)) completed(s);
  else if (cut_after && s->events >= cut_after) leave(s);
}

/* Resets the counters after the settling time. */
static void begin_anew(void) {
  settle = 0;
  total.events = total.bytes = total.recvs = 0;
  first_event = 0;
  if (gaps_wanted) memset(gaps, 0, GAPS * sizeof *gaps);
}

static void receive(Stream *s) {
  static char buffer[262144];
  ssize_t n = recv(s->fd, buffer, sizeof buffer, MSG_DONTWAIT);
  int64_t now = now_ns();
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) {
    if (n < 0) total.errors++;
    else total.closed++;
    return finish(s);
  }
  if (settle && now >= began + settle) begin_anew();
  total.recvs++;
  total.bytes += n;
  if (dump && s == streams) {
    double row[] = {(double)now / 1000, (double)n};
    fwrite(row, 8, 2, dump);
    fwrite(buffer, 1, (size_t)n, dump);
  }
  if (s->state == HEAD || s->state == BODY) take(s, buffer, (size_t)n, now);
}

static double gap_at(double share) {
  uint64_t all = 0, seen = 0;
  for (int i = 0; i < GAPS; i++) all += gaps[i];
  for (int i = 0; i < GAPS; i++)
    if ((seen += gaps[i]) && (double)seen >= (double)all * share) return i;
  return 0;
}

static void report(int64_t ended) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  printf("{\"streams\":%ld,\"completed\":%ld,\"cut\":%ld,\"closed\":%ld,\"errors\":%ld,\"refused\":%ld,\"open\":%ld", streams_max,
         total.completed, total.cut, total.closed, total.errors, total.refused, live);
  printf(",\"events\":%ld,\"bytes\":%ld,\"recvs\":%ld,\"elapsedUs\":%.0f,\"streamingUs\":%.0f,\"cpuUs\":%.0f,\"slept\":%ld", total.events,
         total.bytes, total.recvs, (double)(ended - began) / 1000, (double)(last_event - first_event) / 1000, cpu, usage.ru_nvcsw);
  if (gaps_wanted)
    printf(",\"gapUs\":{\"p50\":%.0f,\"p99\":%.0f,\"max\":%.0f}", gap_at(0.5), gap_at(0.99), gap_at(1));
  printf(",\"status\":{");
  for (int i = 0, more = 0; i < 600; i++)
    if (statuses[i]) printf("%s\"%d\":%d", more++ ? "," : "", i, statuses[i]);
  printf("},\"error\":\"");
  for (char *at = error_text; *at; at++)
    if (*at >= ' ') printf(*at == '"' || *at == '\\' ? "\\%c" : "%c", *at);
  printf("\"}\n");
}

int main(int argc, char **argv) {
  address.sin_port = htons((uint16_t)number(argc, argv, "--port", 8000));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  path = option(argc, argv, "--path", "/v1/chat/completions");
  ending = option(argc, argv, "--ending", "fin");
  body = slurp(option(argc, argv, "--body", "body.json"), &body_length);
  streams_max = number(argc, argv, "--streams", 1);
  requests = number(argc, argv, "--requests", 1);
  stall = number(argc, argv, "--stall-ms", 0) * 1000000;
  cut_after = number(argc, argv, "--cut", 0);
  rcvbuf = (int)number(argc, argv, "--rcvbuf", 0);
  gaps_wanted = (int)number(argc, argv, "--gaps", 0);
  settle = number(argc, argv, "--settle-ms", 0) * 1000000;
  if (gaps_wanted) gaps = calloc(GAPS, sizeof *gaps);
  long together = number(argc, argv, "--together", 0), ramp = number(argc, argv, "--ramp", 64), ready = 0, opened = 0;
  int64_t every = number(argc, argv, "--every-ms", 1) * 1000000;
  int64_t duration = number(argc, argv, "--duration-ms", 0) * 1000000;
  const char *per_stream = option(argc, argv, "--per-stream", NULL), *dump_path = option(argc, argv, "--dump", NULL);
  if (dump_path && !(dump = fopen(dump_path, "wb"))) die(dump_path);
  const char *stamps_path = option(argc, argv, "--stamps", NULL);
  if (stamps_path) stamps_most = number(argc, argv, "--stamps-most", 4096);
  build_request();
  streams = calloc((size_t)streams_max, sizeof *streams);
  for (long i = 0; stamps_most && i < streams_max; i++) streams[i].stamps = calloc((size_t)stamps_most, sizeof(double));
  loop = epoll_create1(0);
  began = now_ns();
  int64_t next = began;
  int asleep = number(argc, argv, "--awake", 0) ? 0 : duration ? 10 : -1;
  while (opened < streams_max || live) {
    int64_t now = now_ns();
    if (duration && now - began >= duration) break;
    if (opened < streams_max && now >= next) {
      for (long i = 0; i < ramp && opened < streams_max; i++) connect_one(&streams[opened++]);
      next = now + every;
    }
    struct epoll_event list[512];
    int count = epoll_wait(loop, list, 512, asleep != 0 && (opened < streams_max || stall) ? 1 : asleep);
    for (int i = 0; i < count; i++) {
      Stream *s = &streams[list[i].data.u32];
      if (s->state != CONNECTING) {
        if (s->state > READY) receive(s);
        continue;
      }
      int failed = 0;
      getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &failed, &(socklen_t){sizeof failed});
      if (failed) {
        total.errors++;
        finish(s);
        continue;
      }
      s->state = READY;
      watch(s, EPOLL_CTL_MOD, 0);
      if (!together) send_request(s);
      else if (++ready == streams_max)
        for (long k = 0; k < streams_max; k++) send_request(&streams[k]);
    }
    for (long k = 0; stall && k < streams_max; k++)
      if (streams[k].state == STALLED && now_ns() >= streams[k].wake) {
        streams[k].state = BODY;
        watch(&streams[k], EPOLL_CTL_MOD, EPOLLIN);
      }
  }
  int64_t ended = now_ns();
  report(ended);
  if (dump) fclose(dump);
  if (stamps_path) {
    FILE *file = fopen(stamps_path, "wb");
    if (!file) die(stamps_path);
    for (long i = 0; i < streams_max; i++) {
      double count = (double)(streams[i].events < stamps_most ? streams[i].events : stamps_most);
      fwrite(&count, 8, 1, file);
      fwrite(streams[i].stamps, 8, (size_t)count, file);
    }
    fclose(file);
  }
  if (per_stream) {
    FILE *file = fopen(per_stream, "wb");
    if (!file) die(per_stream);
    for (long i = 0; i < streams_max; i++) {
      Stream *s = &streams[i];
      double row[] = {(double)s->sent / 1000, (double)s->first / 1000, (double)s->last / 1000, (double)s->events, s->complete};
      fwrite(row, 8, 5, file);
    }
    fclose(file);
  }
  return 0;
}
