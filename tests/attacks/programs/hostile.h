// What the hostile programs in C share. A program says BREACH when something worked that must not.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST_FAIL(call) do { if ((long)(call) >= 0) { puts("BREACH " #call); fflush(stdout); } } while (0)
