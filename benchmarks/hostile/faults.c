/* A library to be loaded before all others (LD_PRELOAD). It counts what a process changes below one folder, and
 * once that is armed, lets the n-th change fail, be cut, or be the last thing that the process does. It stands
 * below Python, Rust and C++ alike, so that no writer can be forgotten. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, FULL, BROKEN, CUT, SEND, CUT_AND_SEND };

static char folder[4096];
static long *counter; /* shared with who waits for this process, so that it outlives a kill */
static long when;
static int action, number;

/* From now on count changes below a folder, and act at the n-th of them. */
void hostile_arm(const char *below, long *shared, long n, int what, int signal_number) {
    strncpy(folder, below, sizeof folder - 1);
    counter = shared, when = n, action = what, number = signal_number;
}

static int inside(const char *path) {
    return counter && path && (path[0] != '/' || !strncmp(path, folder, strlen(folder)));
}

static int concerns(int fd) {
    char link[64], path[4096];
    struct stat status;
    if (!counter || fd < 3 || fstat(fd, &status) || !S_ISREG(status.st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return path[0] == '/' && inside(path);
}

/* Count a change. Return the error that it ends with, or 0; -1 asks a writer for half of it. */
static int due(int grows) {
    long now = ++*counter;
    if (now < when || action == COUNT) return 0;
    if (now > when) return grows && (action == FULL || action == CUT) ? ENOSPC : 0;
    switch (action) {
    case FULL: return grows ? ENOSPC : 0;
    case BROKEN: return EIO;
    case CUT: return grows ? -1 : 0;
    case SEND: kill(getpid(), number); return 0;
    default: return grows ? -1 : (kill(getpid(), number), 0);
    }
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define REFUSE(error) do { errno = (error); return -1; } while (0)

static size_t halved(size_t count) { return count > 1 ? count / 2 : count; }

static void after_half(void) {
    if (action == CUT_AND_SEND) kill(getpid(), number);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    int error = concerns(fd) ? due(1) : 0;
    if (error > 0) REFUSE(error);
    ssize_t written = REAL(write)(fd, bytes, error ? halved(count) : count);
    if (error) after_half();
    return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    int error = concerns(fd) ? due(1) : 0;
    if (error > 0) REFUSE(error);
    ssize_t written = error ? REAL(write)(fd, parts[0].iov_base, halved(parts[0].iov_len)) : REAL(writev)(fd, parts, count);
    if (error) after_half();
    return written;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t place) {
    int error = concerns(fd) ? due(1) : 0;
    if (error > 0) REFUSE(error);
    ssize_t written = REAL(pwrite64)(fd, bytes, error ? halved(count) : count, place);
    if (error) after_half();
    return written;
}

#define ON_FILE(name, grows, parameters, ...)                 \
    int name parameters {                                     \
        int error = concerns(fd) ? due(grows) : 0;            \
        if (error > 0) REFUSE(error);                         \
        if (error) after_half();                              \
        return REAL(name)(__VA_ARGS__);                       \
    }
#define ON_PATH(name, grows, parameters, ...)                 \
    int name parameters {                                     \
        int error = inside(path) ? due(grows) : 0;            \
        if (error > 0) REFUSE(error);                         \
        if (error) after_half();                              \
        return REAL(name)(__VA_ARGS__);                       \
    }

ON_FILE(fsync, 1, (int fd), fd)
ON_FILE(fdatasync, 1, (int fd), fd)
ON_FILE(ftruncate64, 0, (int fd, off64_t length), fd, length)
ON_PATH(rename, 0, (const char *path, const char *to), path, to)
ON_PATH(renameat, 0, (int from, const char *path, int at, const char *to), from, path, at, to)
ON_PATH(renameat2, 0, (int from, const char *path, int at, const char *to, unsigned flags), from, path, at, to, flags)
ON_PATH(link, 1, (const char *path, const char *to), path, to)
ON_PATH(symlink, 1, (const char *to, const char *path), to, path)
ON_PATH(mkdir, 1, (const char *path, mode_t mode), path, mode)
ON_PATH(unlink, 0, (const char *path), path)
ON_PATH(unlinkat, 0, (int at, const char *path, int flags), at, path, flags)
ON_PATH(rmdir, 0, (const char *path), path)

static mode_t mode_of(int flags, va_list arguments) { return flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0; }

#define OPENING(name, parameters, ...)                                              \
    int name parameters {                                                           \
        va_list arguments;                                                          \
        va_start(arguments, flags);                                                 \
        mode_t mode = mode_of(flags, arguments);                                    \
        va_end(arguments);                                                          \
        int error = (flags & (O_CREAT | O_TRUNC)) && inside(path) ? due(1) : 0;     \
        if (error > 0) REFUSE(error);                                               \
        if (error) after_half();                                                    \
        return REAL(name)(__VA_ARGS__, mode);                                       \
    }

OPENING(open, (const char *path, int flags, ...), path, flags)
OPENING(open64, (const char *path, int flags, ...), path, flags)
OPENING(openat, (int at, const char *path, int flags, ...), at, path, flags)
OPENING(openat64, (int at, const char *path, int flags, ...), at, path, flags)
