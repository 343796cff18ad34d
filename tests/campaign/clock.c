/* Adds to the clock of the calendar what a file says: eight bytes, nanoseconds, mapped once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *step;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("CLOCK_STEP_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) step = at;
    close(fd);
}

int clock_gettime(clockid_t which, struct timespec *told) {
    int done = real(which, told);
    if (done || !step || (which != CLOCK_REALTIME && which != CLOCK_REALTIME_COARSE)) return done;
    int64_t all = told->tv_sec * INT64_C(1000000000) + told->tv_nsec + *step;
    told->tv_sec = all / INT64_C(1000000000);
    told->tv_nsec = all % INT64_C(1000000000);
    return 0;
}
