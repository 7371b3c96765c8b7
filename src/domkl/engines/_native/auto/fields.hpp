// Where the numbers of a network's concepts stand: NumPy arrays and settings of the Python objects, by name.
//
// The native round works in place on the arrays that the concepts of `domkl.learning.auto` declare. So what
// is rare (a new scale, learning the last samples again, files) stays in Python, on the same numbers.
#pragma once
#include <cstdint>

namespace domkl {

// Arrays and numbers by name, such as "recent.fade"; throws where one is not as expected.
class Fields {
  public:
    virtual ~Fields() = default;
    // A number, or the one at a place of a tuple.
    virtual double number(const char* name, int place = -1) = 0;
    virtual void get(const char* name, int64_t size, double*& array) = 0;
    virtual void get(const char* name, int64_t size, float*& array) = 0;
    virtual void get(const char* name, int64_t size, int64_t*& array) = 0;
    virtual void get(const char* name, int64_t size, bool*& array) = 0;
};

// Sizes that all concepts share.
struct Sizes {
    int64_t J, d, m, K;  // devices, inputs, targets, features
};

}  // namespace domkl
