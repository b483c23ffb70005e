#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* start.c */
void print(const char *text, size_t length);
_Noreturn void leave(int status);
void *memcpy(void *restrict to, const void *restrict from, size_t length);
int memcmp(const void *a, const void *b, size_t length);

/* board.c */
_Noreturn void board_main(void);

/* The Rust side. */
void drowse_run(void);
extern const bool drowse_speaks_http;
