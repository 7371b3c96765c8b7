#include "isa.hpp"

namespace domkl {

bool runs(const std::string& isa) {
    if (isa == "baseline") return true;
#if defined(DOMKL_X86)
    __builtin_cpu_init();
    if (isa == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (isa == "avx512")
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return false;
}

std::string best() {
    for (const char* isa : {"avx512", "avx2"})
        if (runs(isa)) return isa;
    return "baseline";
}

}  // namespace domkl
