/*
 * How do the plain tokens of a step reach their sockets by one call? Compiled at the start by the compiler that is part of
 * Bun (`bun:ffi`, `cc`), which needs no headers: what is used of the C library is declared here, with its values on Linux.
 */
#define AF_UNIX 1
#define SOCK_STREAM 1
#define MSG_DONTWAIT 0x40
#define MSG_NOSIGNAL 0x4000

#if defined(__x86_64__)
#define SENDTO 44
#elif defined(__aarch64__)
#define SENDTO 206
#endif

extern long syscall(long number, long fd, const void *bytes, long length, long flags, long to, long to_length);
extern int socketpair(int domain, int type, int protocol, int *pair);
extern int close(int fd);
extern int *__errno_location(void);
extern void *memcpy(void *to, const void *from, unsigned long length);

/*
 * `send`, which the C library makes a place where threads can be cancelled: in a process of several threads that costs two
 * atomic changes each time, a hundredth of a token.
 */
static long send_now(int fd, const void *bytes, long length) {
  return syscall(SENDTO, fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
}

/* These layouts stand in engine/interface/lanes.ts too. */
#define LANE_BYTES 576
#define FRAME_BYTES (LANE_BYTES - 24)
#define PIECE_MOST 255
#define BYTES_MOST (1 << 30)
typedef struct {
  int line;            /* descriptor + 1; 0: the receiver is to be asked */
  int next;            /* the step whose token it takes */
  int tokens, bytes;   /* taken, and not yet told to the receiver */
  int prefix, suffix;  /* their lengths: what stands before and after each piece */
  unsigned char frame[FRAME_BYTES];
} Lane;
typedef struct {
  int from, to, step;
  int lanes, ids;      /* how many of either the tables know */
  int length, taken;   /* filled in: an event of which less was taken, and how much; negative: the error */
  unsigned char event[16 + FRAME_BYTES + PIECE_MOST];
} Call;

/* A row of the outbox (assembly/layout.ts). */
typedef struct {
  int slot, at, count, flags;
} Row;

/* An HTTP chunk; gives its length. A copy: five parts in place (`sendmsg`) cost 1.06 times as much with events of 250 bytes. */
static int chunk(unsigned char *to, const Lane *lane, const unsigned char *piece, int length) {
  unsigned char *at = to;
  int size = lane->prefix + length + lane->suffix;
  int shift = 0;
  while (size >> shift > 15) shift += 4;
  for (; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[(size >> shift) & 15];
  *at++ = '\r';
  *at++ = '\n';
  memcpy(at, lane->frame, lane->prefix);
  at += lane->prefix;
  memcpy(at, piece, length);
  at += length;
  memcpy(at, lane->frame + lane->prefix, lane->suffix);
  at += lane->suffix;
  *at++ = '\r';
  *at++ = '\n';
  return (int)(at - to);
}

/*
 * Sends row after row, each by itself, as long as it is one plain token of a lane that is open. Gives the row that somebody
 * has to look at (`length` > 0: because the kernel took less of it), or `to`.
 */
int write_rows(Lane *lanes, const unsigned char *pieces, const int *piece_at, const Row *out, const int *ids, Call *call) {
  call->length = 0;
  for (int row = call->from; row < call->to; row++) {
    const Row *told = out + row;
    if (told->count != 1 || told->flags != 0 || told->slot >= call->lanes) return row;
    Lane *lane = lanes + told->slot;
    int id = ids[told->at];
    if (lane->line == 0 || lane->next != call->step || lane->bytes > BYTES_MOST) return row;
    if (id < 0 || id >= call->ids || piece_at[id] == 0) return row;
    const unsigned char *piece = pieces + piece_at[id];
    int length = chunk(call->event, lane, piece, piece[-1]);
    lane->next = call->step + 1;
    lane->tokens++;
    lane->bytes += lane->prefix + piece[-1] + lane->suffix;
    long taken = send_now(lane->line - 1, call->event, length);
    if (taken == length) continue;
    call->length = length;
    call->taken = taken < 0 ? -*__errno_location() : (int)taken;
    return row;
  }
  return call->to;
}

/* Is this process allowed to? Gives 0, or the error of a send between two sockets of its own. */
int try_send(void) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return *__errno_location();
  long taken = send_now(pair[0], "", 1);
  int error = taken == 1 ? 0 : *__errno_location();
  close(pair[0]);
  close(pair[1]);
  return error;
}
