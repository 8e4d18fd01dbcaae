// Rows of the suite cost-models about features.
#pragma once

#include "bench.h"

namespace tcc::benchmarks {

std::vector<Row> feature_rows(double seconds);

}  // namespace tcc::benchmarks
