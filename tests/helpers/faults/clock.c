/* A wall clock that somebody sets all the time: an hour ahead, an hour back. So does the clock that counts a machine's sleep, as if there
 * had been one. The monotonic clock is as it is. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static atomic_int calls;

static time_t jump(void) { return atomic_fetch_add(&calls, 1) % 2 ? 3600 : -3600; }

int clock_gettime(clockid_t clock, struct timespec* at) {
  int result = (int)syscall(SYS_clock_gettime, clock, at);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_BOOTTIME)) at->tv_sec += jump();
  return result;
}

int gettimeofday(struct timeval* at, void* zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at != NULL) *at = now.tv_sec;
  return now.tv_sec;
}
