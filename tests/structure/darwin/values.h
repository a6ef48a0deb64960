#pragma once
#include <sys/types.h>
// What Apple's fcntl.h, sys/socket.h and sys/stat.h have beside what those of Linux have.
#define SO_NOSIGPIPE 0x1022
#define F_NOCACHE 48
#define F_PREALLOCATE 42
#define F_ALLOCATEALL 4
#define F_PEOFPOSMODE 3
struct fstore_t {
  unsigned int fst_flags;
  int fst_posmode;
  off_t fst_offset, fst_length, fst_bytesalloc;
};
#define st_mtimespec st_mtim
