/*
 * Sends the plain tokens of a step to their sockets. Compiled at the start by the compiler in Bun (`cc` of `bun:ffi`). The compiler
 * has no header files, and finds no C library where the library's development files are missing, as in most containers. So this
 * file has the types of the functions that it calls, and constants with their values on Linux. native-lanes.ts defines the
 * addresses of the functions as macros (AT_*).
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

typedef long SystemCall(long number, long fd, const void *bytes, long length, long flags, long to, long to_length);
typedef int OpenSocketPair(int domain, int type, int protocol, int *pair);
typedef int CloseFile(int fd);
typedef int *ErrorNumber(void);
typedef void *CopyBytes(void *to, const void *from, unsigned long length);
#define system_call ((SystemCall *)AT_SYSCALL)
#define open_socket_pair ((OpenSocketPair *)AT_SOCKETPAIR)
#define close_file ((CloseFile *)AT_CLOSE)
#define error_number (*((ErrorNumber *)AT_ERRNO_LOCATION)())
#define copy_bytes ((CopyBytes *)AT_MEMCPY)

/*
 * Sends bytes without waiting. Uses the system call, because `send` of the C library is a cancellation point: with several
 * threads that costs two atomic operations, a hundredth of the time of a token.
 */
static long send_now(int fd, const void *bytes, long length) {
  return system_call(SENDTO, fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
}

/* Longest count of bytes before the receiver must read it. */
#define BYTES_MOST (1 << 30)

/*
 * Lanes, calls and outbox rows are arrays of `int`. native-lanes.ts defines the numbers of their words as macros (LANE_*, CALL_*,
 * OUT_*), from the enums in engine/interface/lanes.ts and assembly/outbox-row.ts.
 */

/*
 * Puts an event together as an HTTP chunk and returns its length. Copies the parts, because `sendmsg` with five parts took 1.06
 * times as long for events of 250 bytes.
 */
static int chunk(unsigned char *to, const int *lane, const unsigned char *piece, int length) {
  const unsigned char *frame = (const unsigned char *)(lane + LANE_FRAME);
  unsigned char *at = to;
  int prefix = lane[LANE_PREFIX];
  int suffix = lane[LANE_SUFFIX];
  int size = prefix + length + suffix;
  int shift = 0;
  while (size >> shift > 15) shift += 4;
  for (; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[(size >> shift) & 15];
  *at++ = '\r';
  *at++ = '\n';
  copy_bytes(at, frame, prefix);
  at += prefix;
  copy_bytes(at, piece, length);
  at += length;
  copy_bytes(at, frame + prefix, suffix);
  at += suffix;
  *at++ = '\r';
  *at++ = '\n';
  return (int)(at - to);
}

/*
 * Sends the event of each row, one by one, while the rows have one plain token of an open lane. `pieces` has the texts of tokens,
 * each after its length; `piece_at` has their offsets by token id, `ids` the tokens of the outbox. Returns the first row that its
 * receiver must handle, or `to`. Sets the call's length if the kernel accepted only a part of that row's event.
 */
int write_rows(int *lanes, const unsigned char *pieces, const int *piece_at, const int *out, const int *ids, int *call) {
  unsigned char *event = (unsigned char *)(call + CALL_EVENT);
  int to = call[CALL_TO];
  int step = call[CALL_STEP];
  call[CALL_LENGTH] = 0;
  for (int row = call[CALL_FROM]; row < to; row++) {
    const int *output = out + OUT_WORDS * row;
    int slot = output[OUT_SLOT];
    if (output[OUT_TOKENS] != 1 || output[OUT_FLAGS] != 0 || slot >= call[CALL_LANES]) return row;
    int *lane = lanes + LANE_WORDS * slot;
    int id = ids[output[OUT_TOKEN_AT]];
    if (lane[LANE_LINE] == 0 || lane[LANE_NEXT] != step || lane[LANE_BYTES] > BYTES_MOST) return row;
    if (id < 0 || id >= call[CALL_IDS] || piece_at[id] == 0) return row;
    const unsigned char *piece = pieces + piece_at[id];
    int length = chunk(event, lane, piece, piece[-1]);
    lane[LANE_NEXT] = step + 1;
    lane[LANE_TOKENS]++;
    lane[LANE_BYTES] += lane[LANE_PREFIX] + piece[-1] + lane[LANE_SUFFIX];
    long taken = send_now(lane[LANE_LINE] - 1, event, length);
    if (taken == length) continue;
    call[CALL_LENGTH] = length;
    call[CALL_TAKEN] = taken < 0 ? -error_number : (int)taken;
    return row;
  }
  return to;
}

/* Tries a send between two sockets of this process. Returns 0, or its error number: a sandbox may forbid the system call. */
int try_send(void) {
  int pair[2];
  if (open_socket_pair(AF_UNIX, SOCK_STREAM, 0, pair)) return error_number;
  long taken = send_now(pair[0], "", 1);
  int error = taken == 1 ? 0 : error_number;
  close_file(pair[0]);
  close_file(pair[1]);
  return error;
}
