/* Loaded into a server before libc: its wall clock runs ahead or behind by the seconds in the file $CLOCK_FILE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long off(void) {
  long seconds = 0;
  FILE *file = fopen(getenv("CLOCK_FILE"), "r");
  if (file) {
    if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
    fclose(file);
  }
  return seconds;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
  int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
  int result = real(tv, tz);
  tv->tv_sec += off();
  return result;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
  int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(id, ts);
  if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) ts->tv_sec += off();
  return result;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
