/* Arm's MPS2 board with a Cortex-M3 (AN385), or a Cortex-M4 with its floating point unit (AN386), which QEMU
 * has: vectors, memory and the first serial port. */
#include <stdint.h>
#include <string.h>

#include "frames.h"

#define UART ((volatile uint32_t *)0x40004000)
enum { DATA, STATE, CONTROL, INTERRUPT, DIVIDER };

int board_read(void) {
    while (!(UART[STATE] & 2)) continue;
    return (int)(UART[DATA] & 0xFF);
}
void board_write(uint8_t byte) {
    while (UART[STATE] & 1) continue;
    UART[DATA] = byte;
}

int main(void);
extern uint32_t data_start, data_end, data_load, bss_start, bss_end, stack_top;

void reset(void) {
#ifdef __ARM_FP
    *(volatile uint32_t *)0xE000ED88 |= 0xF << 20; /* CPACR: the unit is on */
#endif
    memcpy(&data_start, &data_load, (size_t)((char *)&data_end - (char *)&data_start));
    memset(&bss_start, 0, (size_t)((char *)&bss_end - (char *)&bss_start));
    UART[DIVIDER] = 16, UART[CONTROL] = 3;
    main();
    for (;;) continue;
}
static void fault(void) {
    for (;;) continue;
}

typedef struct {
    const uint32_t *stack;
    void (*handlers[15])(void);
} vector_table;
__attribute__((section(".vectors"), used)) static const vector_table vectors = {
    &stack_top, {reset, fault, fault, fault, fault, fault}};
