#pragma once
#include <stddef.h>
#include <sys/time.h>
#include <sys/types.h>
#define CTL_KERN 1
#define KERN_PROC 14
#define KERN_PROCARGS2 49
#define KERN_PROC_ALL 0
#define KERN_PROC_PID 1
#define SIDL 1
#define SRUN 2
#define SSLEEP 3
#define SSTOP 4
#define SZOMB 5
struct extern_proc {
  union {
    struct timeval __p_starttime;
  } p_un;
#define p_starttime p_un.__p_starttime
  pid_t p_pid;
  char p_stat;
  char p_comm[17];
};
struct kinfo_proc {
  extern_proc kp_proc;
  struct {
    pid_t e_ppid;
  } kp_eproc;
};
extern "C" int sysctl(int*, unsigned, void*, size_t*, void*, size_t);
extern "C" int sysctlbyname(const char*, void*, size_t*, void*, size_t);
