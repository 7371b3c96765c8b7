#include "frames.h"

#include <string.h>

/* CRC-32 as in zlib, bit by bit: small, and fast enough for a serial line. */
static uint32_t crc;
static void add(uint8_t byte) {
    crc ^= byte;
    for (int k = 0; k < 8; ++k) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
}

static void put(uint8_t byte) { add(byte), board_write(byte); }
static void put_whole(uint32_t value) {
    for (int k = 0; k < 4; ++k) put((uint8_t)(value >> 8 * k));
}
static int get_whole(uint32_t *value) {
    *value = 0;
    for (int k = 0; k < 4; ++k) {
        const int byte = board_read();
        if (byte < 0) return 0;
        add((uint8_t)byte);
        *value |= (uint32_t)byte << 8 * k;
    }
    return 1;
}

void frame_begin(int type, uint32_t round, int count) {
    board_write('d'), board_write('p');
    crc = 0xFFFFFFFFu;
    put((uint8_t)type), put_whole(round), put_whole((uint32_t)count);
}

void frame_words(const void *words, int count) {
    const uint8_t *at = words;
    for (int k = 0; k < count; ++k, at += 4) {
        uint32_t bits;
        memcpy(&bits, at, sizeof bits);
        put_whole(bits);
    }
}

void frame_end(void) {
    const uint32_t sum = ~crc;
    for (int k = 0; k < 4; ++k) board_write((uint8_t)(sum >> 8 * k));
}

int frame_read(uint32_t *round, void *words, int most, int *count, unsigned *damaged) {
    for (int last = 0, byte; (byte = board_read()) >= 0; last = byte) {
        if (last != 'd' || byte != 'p') continue;
        uint32_t n, sum, expected;
        const int type = board_read();
        if (type < 0) return -1;
        crc = 0xFFFFFFFFu, add((uint8_t)type);
        if (!get_whole(round) || !get_whole(&n)) return -1;
        if (n > (uint32_t)most) {
            ++*damaged;
            continue;
        }
        for (uint32_t k = 0; k < n; ++k) {
            uint32_t bits;
            if (!get_whole(&bits)) return -1;
            memcpy((uint8_t *)words + 4 * k, &bits, sizeof bits);
        }
        sum = ~crc;
        if (!get_whole(&expected)) return -1;
        if (sum == expected) return *count = (int)n, type;
        ++*damaged;
        byte = 0;
    }
    return -1;
}
