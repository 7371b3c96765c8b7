/* The serial line is standard input and output. */
#include <stdio.h>

#include "frames.h"

int board_read(void) {
    const int byte = getchar();
    return byte == EOF ? -1 : byte;
}
void board_write(uint8_t byte) {
    putchar(byte);
    fflush(stdout);
}
