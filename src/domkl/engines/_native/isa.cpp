#include "isa.hpp"

#if defined(DOMKL_X86)
#include <cpuid.h>
#endif

namespace domkl {

#if defined(DOMKL_X86)
namespace {

// The processor is asked directly: __builtin_cpu_supports needs a part of libgcc that zig's linker does not
// have.
bool has(unsigned leaf, unsigned& b, unsigned& c) {
    unsigned a = 0, d = 0;
    return __get_cpuid_count(leaf, 0, &a, &b, &c, &d) != 0;
}

/// Whether the system saves all of these registers when it changes threads.
bool saves(unsigned registers) {
    unsigned low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & registers) == registers;
}

}  // namespace
#endif

bool runs(const std::string& isa) {
    if (isa == "baseline") return true;
#if defined(DOMKL_X86)
    unsigned b = 0, basic = 0, extended = 0, c = 0;
    if (!has(1, b, basic) || !has(7, extended, c) || !(basic & bit_OSXSAVE)) return false;
    const bool avx2 = (extended & bit_AVX2) && (basic & bit_FMA);
    const unsigned avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512VL;
    if (isa == "avx2") return avx2 && saves(0x6);
    if (isa == "avx512") return avx2 && (extended & avx512) == avx512 && saves(0xe6);
#endif
    return false;
}

std::string best() {
    for (const char* isa : {"avx512", "avx2"})
        if (runs(isa)) return isa;
    return "baseline";
}

}  // namespace domkl
