/* The start of a program without a C library on Linux x86-64: entry, exit, output, and the four memory functions that
 * compilers take for granted. What a device has in its start-up code. */
#include "start.h"

static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

void print(const char *text, size_t length) {
    while (length > 0) {
        long written = call(1, 1, (long)text, (long)length);
        if (written <= 0) return;
        text += written;
        length -= (size_t)written;
    }
}

_Noreturn void leave(int status) {
    for (;;) call(231, status, 0, 0);
}

void *memcpy(void *restrict to, const void *restrict from, size_t length) {
    unsigned char *t = to;
    const unsigned char *f = from;
    while (length--) *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t length) {
    unsigned char *t = to;
    const unsigned char *f = from;
    if (t < f)
        while (length--) *t++ = *f++;
    else
        while (length--) t[length] = f[length];
    return to;
}

void *memset(void *to, int byte, size_t length) {
    unsigned char *t = to;
    while (length--) *t++ = (unsigned char)byte;
    return to;
}

int memcmp(const void *a, const void *b, size_t length) {
    const unsigned char *x = a, *y = b;
    for (; length--; x++, y++)
        if (*x != *y) return *x < *y ? -1 : 1;
    return 0;
}

int bcmp(const void *a, const void *b, size_t length) { return memcmp(a, b, length); }

/* The kernel enters with the stack aligned to 16 bytes, a function expects it 8 past that. */
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tand $-16, %rsp\n\tcall board_main\n\tud2\n");
