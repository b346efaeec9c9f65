/*
 * How do the events of a step reach their sockets by one call? Compiled at the start by the compiler that is part of Bun
 * (`bun:ffi`, `cc`), which needs no headers: what is used of the C library is declared here, with its values on Linux.
 */
#define AF_UNIX 1
#define SOCK_STREAM 1
#define MSG_DONTWAIT 0x40
#define MSG_NOSIGNAL 0x4000

extern long send(int fd, const void *bytes, unsigned long length, int flags);
extern int socketpair(int domain, int type, int protocol, int *pair);
extern int close(int fd);
extern int *__errno_location(void);

/* The layout stands in send-batch.ts too. */
typedef struct {
  int fd; /* negative: whoever was to get it is gone */
  int from, length;
  int taken; /* filled in: bytes that the kernel took; negative: its error, and it took none */
} Entry;

/* Gives how many of the sends took less than all. */
int send_batch(const unsigned char *bytes, Entry *entries, int count) {
  int shorter = 0;
  for (Entry *entry = entries; entry < entries + count; entry++) {
    if (entry->fd < 0) {
      entry->taken = entry->length;
      continue;
    }
    long taken = send(entry->fd, bytes + entry->from, (unsigned long)entry->length, MSG_DONTWAIT | MSG_NOSIGNAL);
    entry->taken = taken < 0 ? -*__errno_location() : (int)taken;
    shorter += entry->taken != entry->length;
  }
  return shorter;
}

/* Is this process allowed to? Gives 0, or the error of a send between two sockets of its own. */
int try_send(void) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return *__errno_location();
  Entry entry = {pair[0], 0, 1, 0};
  int shorter = send_batch((const unsigned char *)"", &entry, 1);
  close(pair[0]);
  close(pair[1]);
  return shorter ? -entry.taken : 0;
}
