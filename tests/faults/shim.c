/* Stands between a program and the C library's file calls, and lets one of them fail.

   Loaded by LD_PRELOAD. Until `fault_arm` was called it only passes on. From then on every call on a file
   under the root is told to the trace, one line each: phase, call, kind of file. The n-th call that is like the
   chosen one fails, is short, or is followed by nothing but failures. A real call is made where a device would
   have done part of the work: a short write has written what it says, a failing close has closed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NONE, FAIL, SHORT };
enum { ONCE, SHORTENED, TORN, FULL, GONE }; /* what a fault is like */

static char root[1024], own_phase[64], want_phase[64], want_call[32], want_kind[32];
static int is_armed, trace = -1, mode, code;
static long nth, seen;
static int has_begun;
static const char *phase = own_phase;

void fault_phase(const char *name) { snprintf(own_phase, sizeof own_phase, "%s", name); }

/* The phase is what the file says, 64 bytes, from now on: somebody else writes it. */
int fault_phase_in(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof own_phase, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (at == MAP_FAILED) return -1;
    phase = at;
    return 0;
}

/* The n-th such call from now on; n = 0: none. What is empty fits everything. */
void fault_arm(const char *under, int trace_to, const char *in_phase, const char *call, const char *kind, long n,
               int how, int error) {
    snprintf(root, sizeof root, "%s", under);
    snprintf(want_phase, sizeof want_phase, "%s", in_phase);
    snprintf(want_call, sizeof want_call, "%s", call);
    snprintf(want_kind, sizeof want_kind, "%s", kind);
    trace = trace_to, nth = n, mode = how, code = error, seen = has_begun = 0;
    is_armed = 1;
}

void fault_disarm(void) { is_armed = 0; }

long fault_begun(void) { return has_begun; }

static int ends(const char *text, const char *with) {
    size_t n = strlen(text), m = strlen(with);
    return n >= m && !strcmp(text + n - m, with);
}

static const char *kind_of(const char *path) {
    if (strncmp(path, root, strlen(root))) return NULL;
    if (ends(path, ".new")) return "unfinished";
    if (ends(path, ".data")) return "data";
    if (ends(path, ".archive")) return "archive";
    if (ends(path, ".lock")) return "lock";
    if (ends(path, ".index")) return "index";
    if (ends(path, ".reserve")) return "reserve";
    if (ends(path, ".hold")) return "hold";
    const char *name = strrchr(path, '/');
    return strchr(name ? name : path, '.') ? "other" : "directory";
}

/* Say what is to become of this call. `writes`: it takes space, which a full disk refuses. */
static int verdict(const char *path, const char *call, int writes) {
    if (!is_armed || !path) return NONE;
    const char *kind = kind_of(path);
    if (!kind) return NONE;
    char line[256];
    int length = snprintf(line, sizeof line, "%s %s %s\n", phase, call, kind);
    int begins = 0;
    if (nth && (!*want_phase || !strcmp(phase, want_phase)) && (!*want_call || !strcmp(call, want_call)) &&
        (!*want_kind || !strcmp(kind, want_kind)))
        begins = __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST) == nth;
    if (begins) __atomic_store_n(&has_begun, 1, __ATOMIC_SEQ_CST);
    if (trace >= 0) syscall(SYS_write, trace, line, length);
    int later = !begins && has_begun;
    int fails = 0;
    switch (mode) {
    case ONCE: fails = begins; break;
    case SHORTENED: return begins ? SHORT : NONE;
    case TORN:
        if (begins) return SHORT;
        fails = later && writes;
        break;
    case FULL: fails = begins || (later && writes); break;
    case GONE: fails = begins || later; break;
    }
    if (fails) errno = code;
    return fails ? FAIL : NONE;
}

static const char *path_of(int fd, char *room, size_t size) {
    if (!is_armed) return NULL;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, room, size - 1);
    if (n < 0) return NULL;
    room[n] = 0;
    if (ends(room, " (deleted)")) room[n - 10] = 0;
    return room;
}

static int verdict_fd(int fd, const char *call, int writes) {
    char room[1024];
    int before = errno, found = verdict(path_of(fd, room, sizeof room), call, writes);
    if (found != FAIL) errno = before;
    return found;
}

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

#define OPENS(name)                                                                                                    \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t with = va_arg(rest, mode_t);                                                                            \
        va_end(rest);                                                                                                  \
        if (verdict(path, flags & O_CREAT ? "create" : "open", flags & O_CREAT) == FAIL) return -1;                    \
        return REAL(name)(path, flags, with);                                                                          \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                                                                                 \
    int name(int at, const char *path, int flags, ...) {                                                               \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t with = va_arg(rest, mode_t);                                                                            \
        va_end(rest);                                                                                                  \
        if (verdict(path, flags & O_CREAT ? "create" : "open", flags & O_CREAT) == FAIL) return -1;                    \
        return REAL(name)(at, path, flags, with);                                                                      \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

#define TRANSFERS(name, shown, buffer, writes)                                                                         \
    ssize_t name(int fd, buffer data, size_t size, off_t at) {                                                         \
        int found = verdict_fd(fd, shown, writes);                                                                     \
        if (found == FAIL) return -1;                                                                                  \
        return REAL(name)(fd, data, found == SHORT && size > 1 ? size / 2 : size, at);                                 \
    }
TRANSFERS(pwrite, "pwrite64", const void *, 1)
TRANSFERS(pwrite64, "pwrite64", const void *, 1)
TRANSFERS(pread, "pread64", void *, 0)
TRANSFERS(pread64, "pread64", void *, 0)

#define STREAMS(name, buffer, writes)                                                                                  \
    ssize_t name(int fd, buffer data, size_t size) {                                                                   \
        int found = verdict_fd(fd, #name, writes);                                                                     \
        if (found == FAIL) return -1;                                                                                  \
        return REAL(name)(fd, data, found == SHORT && size > 1 ? size / 2 : size);                                     \
    }
STREAMS(write, const void *, 1)
STREAMS(read, void *, 0)

/* The first half of the bytes of all the buffers. */
static int halved(const struct iovec *from, int count, struct iovec *to) {
    size_t all = 0, left;
    for (int i = 0; i < count; i++) all += from[i].iov_len;
    left = all > 1 ? all / 2 : all;
    int i = 0;
    for (; i < count && left; i++) {
        to[i] = from[i];
        if (to[i].iov_len > left) to[i].iov_len = left;
        left -= to[i].iov_len;
    }
    return i;
}

#define GATHERS(name, shown, writes)                                                                                   \
    ssize_t name(int fd, const struct iovec *parts, int count, off_t at) {                                             \
        struct iovec fewer[1024];                                                                                      \
        int found = verdict_fd(fd, shown, writes);                                                                     \
        if (found == FAIL) return -1;                                                                                  \
        if (found == SHORT) count = halved(parts, count, fewer), parts = fewer;                                        \
        return REAL(name)(fd, parts, count, at);                                                                       \
    }
GATHERS(preadv, "preadv", 0)
GATHERS(preadv64, "preadv", 0)
GATHERS(pwritev, "pwritev", 1)
GATHERS(pwritev64, "pwritev", 1)

#define GATHERS_WITH(name, shown, writes)                                                                              \
    ssize_t name(int fd, const struct iovec *parts, int count, off_t at, int flags) {                                  \
        struct iovec fewer[1024];                                                                                      \
        int found = verdict_fd(fd, shown, writes);                                                                     \
        if (found == FAIL) return -1;                                                                                  \
        if (found == SHORT) count = halved(parts, count, fewer), parts = fewer;                                        \
        return REAL(name)(fd, parts, count, at, flags);                                                                \
    }
GATHERS_WITH(preadv2, "preadv", 0)
GATHERS_WITH(preadv64v2, "preadv", 0)
GATHERS_WITH(pwritev2, "pwritev2", 1)
GATHERS_WITH(pwritev64v2, "pwritev2", 1)

#define ON_FD(name)                                                                                                    \
    int name(int fd) {                                                                                                 \
        if (verdict_fd(fd, #name, 1) == FAIL) return -1;                                                               \
        return REAL(name)(fd);                                                                                         \
    }
ON_FD(fsync)
ON_FD(fdatasync)

int close(int fd) {
    int found = verdict_fd(fd, "close", 0), error = errno; /* closed all the same, as Linux does */
    int done = REAL(close)(fd);
    if (found != FAIL) return done;
    errno = error;
    return -1;
}

#define CUTS(name)                                                                                                     \
    int name(int fd, off_t size) {                                                                                     \
        if (verdict_fd(fd, "ftruncate", 0) == FAIL) return -1;                                                         \
        return REAL(name)(fd, size);                                                                                   \
    }
CUTS(ftruncate)
CUTS(ftruncate64)

#define RESERVES(name)                                                                                                 \
    int name(int fd, off_t from, off_t size) {                                                                         \
        if (verdict_fd(fd, "fallocate", 1) == FAIL) return errno;                                                      \
        return REAL(name)(fd, from, size);                                                                             \
    }
RESERVES(posix_fallocate)
RESERVES(posix_fallocate64)

#define CONTROLS(name)                                                                                                 \
    int name(int fd, int command, ...) {                                                                               \
        va_list rest;                                                                                                  \
        va_start(rest, command);                                                                                       \
        void *with = va_arg(rest, void *);                                                                             \
        va_end(rest);                                                                                                  \
        int locks = command == F_OFD_SETLK || command == F_OFD_GETLK || command == F_SETLK;                            \
        if (locks && verdict_fd(fd, "fcntl", 0) == FAIL) return -1;                                                    \
        return REAL(name)(fd, command, with);                                                                          \
    }
CONTROLS(fcntl)
CONTROLS(fcntl64)

int rename(const char *old, const char *new) {
    if (verdict(new, "rename", 1) == FAIL) return -1;
    return REAL(rename)(old, new);
}

int unlink(const char *path) {
    if (verdict(path, "unlink", 0) == FAIL) return -1;
    return REAL(unlink)(path);
}

int mkdir(const char *path, mode_t with) {
    if (verdict(path, "mkdir", 1) == FAIL) return -1;
    return REAL(mkdir)(path, with);
}

int link(const char *old, const char *new) {
    if (verdict(new, "link", 1) == FAIL) return -1;
    return REAL(link)(old, new);
}

DIR *opendir(const char *path) {
    if (verdict(path, "opendir", 0) == FAIL) return NULL;
    return REAL(opendir)(path);
}

int fstat(int fd, struct stat *found) {
    if (verdict_fd(fd, "fstat", 0) == FAIL) return -1;
    return REAL(fstat)(fd, found);
}

int fstat64(int fd, struct stat64 *found) {
    if (verdict_fd(fd, "fstat", 0) == FAIL) return -1;
    return REAL(fstat64)(fd, found);
}

int stat(const char *path, struct stat *found) {
    if (verdict(path, "stat", 0) == FAIL) return -1;
    return REAL(stat)(path, found);
}

int stat64(const char *path, struct stat64 *found) {
    if (verdict(path, "stat", 0) == FAIL) return -1;
    return REAL(stat64)(path, found);
}

int statvfs(const char *path, struct statvfs *found) {
    if (verdict(path, "statvfs", 0) == FAIL) return -1;
    return REAL(statvfs)(path, found);
}

int statvfs64(const char *path, struct statvfs64 *found) {
    if (verdict(path, "statvfs", 0) == FAIL) return -1;
    return REAL(statvfs64)(path, found);
}
