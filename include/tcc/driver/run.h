// Running a built library on data of the user's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tcc/driver/library.h"
#include "tcc/driver/tensor_file.h"

namespace tcc::driver {

struct RunOptions {
  std::map<std::string, std::string> files;  // input's name -> .npy or .pb
  std::map<std::string, TensorFile> arrays;  // input's name -> tensor; files go first
  // Of dimensions of several sizes, by name, where no tensor says them; those not named have their largest.
  std::map<std::string, int64_t> sizes;
  bool random = false;  // inputs that are not given get seeded random numbers
  uint64_t seed = 1;
  int threads = 0;                               // 0 = all CPUs
  bool keep_denormals = false;                   // of libraries for CPUs
  std::string cuda_driver;                       // of libraries for GPUs; "" = the system's
  std::map<std::string, std::string> out_files;  // output's name -> .npy or .pb
  std::string archive;                           // .npz of all outputs; "" = none
};

struct RunReport {
  std::string id;
  std::vector<TensorRange> inputs, outputs;
  double seconds = 0;              // of the run
  std::vector<std::string> files;  // written
};

// Errors: a name that the model does not have, inputs that are missing (all are named), a tensor of another type or
// shape, files that cannot be read or written. Nothing is written unless the run succeeds.
Result<RunReport> run_library(const std::string& library, const RunOptions& options);

TensorRange range_of(const std::string& name, graph::DType dtype, const graph::Shape& shape,
                     const std::vector<double>& values);

}  // namespace tcc::driver
