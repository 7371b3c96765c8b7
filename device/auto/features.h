/* Features: random cosines of the inputs, of four bandwidths, over few or all of them. */
#pragma once

#include "scale.h"

void features_of(const inputs *in, float z[K]);
