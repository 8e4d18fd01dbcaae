// Models with dimensions of several sizes: the sizes that kernels are made for, and the model at one choice of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tcc/driver/compile.h"

namespace tcc::driver {

constexpr size_t kMaxBuckets = 64;  // of one library

// "1..64@8,32": the range, and the sizes to tune for. Errors (usage): which part is wrong.
Result<graph::DimRange> parse_range(const std::string& name, const std::string& text);

// All combinations of the dimensions' sizes that kernels are made for, the smallest first. Errors (usage): more than
// kMaxBuckets.
Result<std::vector<std::vector<int64_t>>> bucket_bounds(const std::vector<graph::DimRange>& ranges);

// "batch=8, seq=128"
std::string sizes_text(const std::map<std::string, int64_t>& sizes);

// The source with these sizes in the place of its ranges.
ModelSource source_at(const ModelSource& source, const std::map<std::string, int64_t>& sizes);

// Combinations of sizes worth checking: both ends of each dimension, the tuned sizes and their neighbors, and sizes
// between; at most `most`, the ends first.
std::vector<std::map<std::string, int64_t>> sizes_to_check(const std::vector<graph::DimRange>& ranges, size_t most);

// The program of all buckets. Errors besides those of make_program: a node that cannot take a range, by name.
Result<Program> make_dynamic_program(const Model& model, const target::Target& target, const FormRecords& records = {});

}  // namespace tcc::driver
