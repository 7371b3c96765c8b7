#include "sha256.h"

#include <string.h>

static const uint32_t CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void take_block(const uint8_t block[64], uint32_t state[8]) {
    uint32_t w[64], s[8];
    for (int k = 0; k < 16; ++k, block += 4)
        w[k] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    for (int k = 16; k < 64; ++k) {
        const uint32_t a = w[k - 15], b = w[k - 2];
        w[k] = w[k - 16] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + w[k - 7] +
               (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int k = 0; k < 64; ++k) {
        const uint32_t e = s[4], a = s[0];
        const uint32_t up = s[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) +
                            ((e & s[5]) ^ (~e & s[6])) + CONSTANTS[k] + w[k];
        const uint32_t most = (a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += up;
        s[0] = up + (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + most;
    }
    for (int k = 0; k < 8; ++k) state[k] += s[k];
}

void sha256(const void *data, size_t size, uint8_t digest[32]) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *at = data;
    size_t left = size;
    for (; left >= 64; at += 64, left -= 64) take_block(at, state);
    uint8_t block[64] = {0};
    memcpy(block, at, left);
    block[left] = 0x80;
    if (left >= 56) take_block(block, state), memset(block, 0, sizeof block);
    for (int k = 0; k < 8; ++k) block[63 - k] = (uint8_t)((uint64_t)size * 8 >> 8 * k);
    take_block(block, state);
    for (int k = 0; k < 32; ++k) digest[k] = (uint8_t)(state[k / 4] >> (24 - 8 * (k % 4)));
}
