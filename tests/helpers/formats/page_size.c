/* A system whose pages have as many bytes as the environment says: LMDB makes its files of pages of that size. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

long sysconf(int name) {
  static long (*next)(int);
  const char* size = getenv("QC_PAGE_SIZE");
  if (name == _SC_PAGESIZE && size) return atol(size);
  if (!next) next = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  return next(name);
}
