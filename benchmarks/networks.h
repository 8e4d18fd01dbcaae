// Whole networks for the suites `models` and `end-to-end`: which there are, how `tcc` makes a library of one as a user
// would, and the same network in ONNX Runtime. Both read the same numbers.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "peers/peer_process.h"
#include "tcc/support/result.h"

namespace tcc::benchmarks {

struct Network {
  std::string name;
  std::string model;                    // zoo:NAME or a file
  std::optional<uint64_t> seed;         // of weights in place of the file's
  std::vector<std::string> sizes = {};  // further words for `tcc`, as --width 75
};

// The zoo, then the files of `folder` in order of their names. Files that are called light_* have had their weights
// replaced by one constant and get seeded ones.
std::vector<Network> all_networks(const std::string& folder);
// The given one, else $TCC_MODELS, else where the tests look for files too.
std::string models_folder(const std::string& given);

// A library or a peer that has run once.
struct Contestant {
  std::string failure;
  std::shared_ptr<PeerProcess> process = nullptr;
  std::vector<size_t> sizes = {};  // elements of each output
  std::vector<float> output = {};  // all of them
  std::vector<double> seconds = {};
};
Contestant failed(const Error& error);

// The largest difference as a share of its output's largest magnitude; NaN equals NaN, an infinity itself, and numbers
// at most `step` apart each other. Errors: other sizes, a number that is finite in one of them only.
Result<double> disagreement(const Contestant& a, const Contestant& b, double step = 0);

// Times both in turns, slice by slice, at least `rounds` slices each and for at least `seconds`. One that does not
// answer gets a failure and is timed no more.
struct Turns {
  double slice = 0.5;  // seconds
  int rounds = 7;
  double seconds = 0;
};
void time_in_turns(Contestant& own, Contestant& peer, const Turns& turns);

struct TuningLimits {
  std::string time;     // as 10m; "" = none
  int64_t trials = 0;   // a task; 0 = as many as the time allows
  std::string records;  // where they are kept, and where those of earlier calls are; "" = in the bench's folder
  bool table = true;    // print the table of tasks
};

// Makes and runs networks in a folder of its own.
class NetworkBench {
 public:
  NetworkBench(std::string folder, TuningLimits limits);

  // Goes on from what the records hold.
  Result<void> tune(const Network& network, int threads) const;
  // The library's path. `options`: further words for `tcc build`.
  Result<std::string> build(const Network& network, int threads, const std::vector<std::string>& options = {}) const;
  // What `tcc verify --json` prints of the library; `passed` in it is false where it differs. `options`: further words.
  Result<nlohmann::json> verify(const std::string& library, const std::vector<std::string>& options = {}) const;
  // As a share of an output's largest magnitude, what `tcc verify --against onnxruntime` allows between the library and
  // its peer: a step of numbers that are rounded to 8 bits is more than rounding of floats gives.
  Result<double> allowed_difference(const std::string& library) const;
  Contestant start_library(const std::string& library, int threads, const std::vector<int>& cpus) const;
  Contestant start_onnx_runtime(const Network& network, int threads, const std::vector<int>& cpus) const;

  const std::string& folder() const { return folder_; }

 private:
  // Arguments of `tcc` that name the network.
  static std::vector<std::string> named(const std::string& command, const Network& network);
  Result<std::string> onnx_file(const Network& network) const;

  std::string folder_, python_;
  TuningLimits limits_;
};

}  // namespace tcc::benchmarks
