/* Frames on a serial line, little endian, as device/README.md has them. */
#ifndef DOMKL_FRAMES_H
#define DOMKL_FRAMES_H

#include <stdint.h>

enum {
    FRAME_SAMPLE = 1,
    FRAME_PREDICTION = 2,
    FRAME_UPDATE = 3,
    FRAME_REFUSED = 4,
    FRAME_CLOSE = 5,
    FRAME_DUALS = 6
};

/* Given by the board: one byte in, waiting for it, or -1 at the end; one byte out. */
int board_read(void);
void board_write(uint8_t byte);

/* Reads a frame of at most `most` words of four bytes, floats or others: its type, or -1 at the end; what is
 * damaged is skipped and counted. */
int frame_read(uint32_t *round, void *words, int most, int *count, unsigned *damaged);
void frame_begin(int type, uint32_t round, int count);
void frame_words(const void *words, int count);
void frame_end(void);

#endif
