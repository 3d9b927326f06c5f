// Loaded before libc (LD_PRELOAD): records what fsync and fdatasync have made durable, in files DISK/<time>-<inode>: of a file its
// content at that moment, of a folder its names, one line each: inode, kind (f, d or l), name, and of a link its target. Nothing is
// really synced. Written for tests: one disk, names without tabs and line ends.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { max_pinned = 4096 };
static struct { ino_t inode; int fd; } pinned[max_pinned];
static int pinned_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// A second descriptor, open until the process ends: its number is not given to another file meanwhile, and to close it would
// release the process's locks on the file.
static int pin(int fd, ino_t inode) {
  for (int i = 0; i < pinned_count; i++)
    if (pinned[i].inode == inode) return pinned[i].fd;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int copy = open(path, O_RDONLY | O_CLOEXEC);
  if (copy < 0 || pinned_count == max_pinned) abort();
  pinned[pinned_count].inode = inode;
  pinned[pinned_count++].fd = copy;
  return copy;
}

static void write_content(int fd, FILE *out) {
  char buffer[65536];
  ssize_t length;
  for (off_t at = 0; (length = pread(fd, buffer, sizeof buffer, at)) > 0; at += length) fwrite(buffer, 1, length, out);
}

static void write_names(int fd, FILE *out) {
  DIR *folder = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) abort();
  for (struct dirent *entry; (entry = readdir(folder));) {
    const char *name = entry->d_name;
    struct stat found;
    if (!strcmp(name, ".") || !strcmp(name, "..") || fstatat(fd, name, &found, AT_SYMLINK_NOFOLLOW)) continue;
    char target[4096] = "";
    if (S_ISLNK(found.st_mode) && readlinkat(fd, name, target, sizeof target - 1) < 0) abort();
    char kind = S_ISDIR(found.st_mode) ? 'd' : S_ISLNK(found.st_mode) ? 'l' : 'f';
    fprintf(out, "%lu\t%c\t%s\t%s\n", (unsigned long)found.st_ino, kind, name, target);
  }
  closedir(folder);
}

static int record(int fd) {
  struct stat found;
  const char *disk = getenv("DISK");
  if (fstat(fd, &found)) return -1;
  if (!disk || !(S_ISREG(found.st_mode) || S_ISDIR(found.st_mode))) return 0;
  pthread_mutex_lock(&mutex);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  char path[4096], unfinished[4200];
  snprintf(path, sizeof path, "%s/%020llu-%lu", disk, now.tv_sec * 1000000000ull + now.tv_nsec, (unsigned long)found.st_ino);
  snprintf(unfinished, sizeof unfinished, "%s.new", path);
  FILE *out = fopen(unfinished, "we");
  if (!out) abort();
  int copy = pin(fd, found.st_ino);
  if (S_ISDIR(found.st_mode)) write_names(copy, out);
  else write_content(copy, out);
  if (fclose(out) || rename(unfinished, path)) abort();
  pthread_mutex_unlock(&mutex);
  return 0;
}

int fsync(int fd) { return record(fd); }
int fdatasync(int fd) { return record(fd); }
