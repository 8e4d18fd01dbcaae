// A target of libFuzzer: whatever the bytes are, import, inference of shapes and folding end with a graph or an error.
// `tools/fuzz` builds and runs it. With TCC_FUZZ_SEEDS=FOLDER it first writes models of random operators there.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "driver/single_operators.h"
#include "onnx/any_bytes.h"
#include "tcc/support/files.h"

namespace {

constexpr double kFoldingSeconds = 2;  // a limit of the importer, so that folding is not reported as a hang
constexpr uint64_t kSeedModels = 1000;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* folder = std::getenv("TCC_FUZZ_SEEDS");
  for (uint64_t i = 0; folder != nullptr && i < kSeedModels; ++i) {
    const std::string file = std::string(folder) + "/random" + std::to_string(i) + ".onnx";
    if (tcc::write_file(file, tcc::driver_test::OperatorMaker(tcc::Rng(1).fork(i)).make().bytes)) continue;
    std::fprintf(stderr, "cannot write %s\n", file.c_str());
    std::exit(1);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tcc::onnx_test::AnyBytes;
  tcc::onnx::ImportOptions options;
  options.seconds = kFoldingSeconds;
  const AnyBytes end = tcc::onnx_test::import_and_fold(std::string(reinterpret_cast<const char*>(data), size), options);
  if (end == AnyBytes::kRefusedWithoutReason) std::abort();
  return 0;
}
