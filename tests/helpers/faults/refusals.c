// Preloaded by tests: the n-th request of queuecore's native modules for memory, or of anybody for a thread, is refused.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

enum { NOTHING, MEMORY, THREADS };

static struct {
  uintptr_t begin, end;
} modules[128];
static int module_count;
static atomic_int what;
static atomic_long seen, nth;
static atomic_int ever;  // not only that one, but all from then on

static int look(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  (void)data;
  if (info->dlpi_name == NULL || strstr(info->dlpi_name, "queuecore/_core/") == NULL) return 0;
  for (int i = 0; i < info->dlpi_phnum && module_count < 128; i++) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
    modules[module_count].begin = info->dlpi_addr + part->p_vaddr;
    modules[module_count++].end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
  }
  return 0;
}

// From now on: of such requests the n-th (0: none) is refused; `sticky`: and all behind it.
void refuse(int kind, long n, int sticky) {
  what = NOTHING;
  module_count = 0;
  dl_iterate_phdr(look, NULL);
  seen = 0;
  nth = n;
  ever = sticky;
  what = kind;
}

long requests(void) { return seen; }

static int refused(int kind, const void* caller) {
  if (what != kind) return 0;
  if (caller != NULL) {
    uintptr_t at = (uintptr_t)caller;
    int i = 0;
    while (i < module_count && (at < modules[i].begin || at >= modules[i].end)) i++;
    if (i == module_count) return 0;
  }
  long number = ++seen;
  return nth > 0 && (number == nth || (ever && number > nth));
}

void* malloc(size_t n) { return refused(MEMORY, __builtin_return_address(0)) ? (errno = ENOMEM, NULL) : __libc_malloc(n); }

void* calloc(size_t n, size_t size) {
  return refused(MEMORY, __builtin_return_address(0)) ? (errno = ENOMEM, NULL) : __libc_calloc(n, size);
}

void* realloc(void* p, size_t n) {
  return refused(MEMORY, __builtin_return_address(0)) ? (errno = ENOMEM, NULL) : __libc_realloc(p, n);
}

int posix_memalign(void** p, size_t align, size_t n) {
  if (refused(MEMORY, __builtin_return_address(0))) return ENOMEM;
  *p = __libc_memalign(align, n);
  return *p == NULL ? ENOMEM : 0;
}

void* mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) {
  if (refused(MEMORY, __builtin_return_address(0))) return errno = ENOMEM, MAP_FAILED;
  return (void*)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}

int pthread_create(pthread_t* id, const pthread_attr_t* attr, void* (*work)(void*), void* argument) {
  static int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (refused(THREADS, NULL)) return EAGAIN;
  if (real == NULL) real = (int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))dlsym(RTLD_NEXT, "pthread_create");
  return real(id, attr, work, argument);
}
