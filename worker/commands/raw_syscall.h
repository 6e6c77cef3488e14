/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * System calls that touch only registers and their arguments. The init of a command shares the
 * worker's memory (CLONE_VM), errno included, and the C library's wrappers would overwrite the
 * worker's errno. These return -errno instead. They are inlined even without optimisation: after
 * CLONE_VFORK the child must not return from a function from which the parent has yet to return.
 * syscall(2), "Architecture-specific requirements".
 */

#include <sys/syscall.h>

#if defined(__x86_64__)

static inline __attribute__((always_inline)) long raw_syscall6(
	long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

#define RAW_SYSCALL 1

#elif defined(__aarch64__)

static inline __attribute__((always_inline)) long raw_syscall6(
	long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

#define RAW_SYSCALL 1

#else

/* On other architectures the init is a fork with its own memory and errno. */
#include <errno.h>
#include <unistd.h>

static inline __attribute__((always_inline)) long raw_syscall6(
	long number, long a, long b, long c, long d, long e, long f)
{
	long result = syscall(number, a, b, c, d, e, f);

	return result < 0 ? -errno : result;
}

#define RAW_SYSCALL 0

#endif

#define RAW6(number, a, b, c, d, e, f) \
	raw_syscall6(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define RAW5(number, a, b, c, d, e) RAW6(number, a, b, c, d, e, 0)
#define RAW4(number, a, b, c, d)    RAW5(number, a, b, c, d, 0)
#define RAW3(number, a, b, c)       RAW5(number, a, b, c, 0, 0)
#define RAW2(number, a, b)          RAW5(number, a, b, 0, 0, 0)
#define RAW1(number, a)             RAW5(number, a, 0, 0, 0, 0)
#define RAW0(number)                RAW5(number, 0, 0, 0, 0, 0)
