// Damaged files: whatever bytes of a model change, import, inference of shapes and folding end with a graph or an
// error, soon, and in little memory. Models of single operators are changed at random; each batch runs in a process of
// its own.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "driver/single_operators.h"
#include "onnx/any_bytes.h"
#include "tcc/support/files.h"

using namespace tcc;

namespace {

constexpr unsigned kSeconds = 20;              // most for one file, on a busy machine
constexpr rlim_t kMemory = rlim_t{512} << 20;  // of a process that holds this test, too

// Bytes that fields, lengths and varints are most sensitive to.
constexpr uint8_t kEdges[] = {0x00, 0x01, 0x02, 0x7f, 0x80, 0x81, 0xfe, 0xff, 0x08, 0x10, 0x12, 0x1a};

std::string mutated(std::string bytes, Rng& rng) {
  for (int64_t edits = 1 + rng.below(4); edits > 0; --edits) {
    const auto at = static_cast<size_t>(rng.below(std::ssize(bytes)));
    const auto length = static_cast<size_t>(1 + rng.below(15));
    switch (rng.below(8)) {
      case 0:
        bytes[at] = static_cast<char>(rng.below(256));
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.below(8)));
        break;
      case 2:
        bytes[at] = static_cast<char>(kEdges[rng.below(std::size(kEdges))]);
        break;
      case 3:
        bytes[at] = static_cast<char>(bytes[at] + (rng.below(2) == 0 ? 1 : -1));
        break;
      case 4:
        bytes.erase(at, length);
        break;
      case 5:
        bytes.insert(at, bytes.substr(static_cast<size_t>(rng.below(std::ssize(bytes))), length));
        break;
      case 6:  // a varint that says a huge number
        bytes.replace(at, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
        break;
      default:
        if (rng.below(8) == 0) bytes.resize(at);
    }
    if (bytes.empty()) bytes = "x";
  }
  return bytes;
}

// Whether it imports. Ends the process where an error says nothing.
bool import_or_end(const std::string& bytes) {
  const auto end = onnx_test::import_and_fold(bytes);
  if (end == onnx_test::AnyBytes::kRefusedWithoutReason) _exit(8);
  return end == onnx_test::AnyBytes::kImported;
}

// Small models of the suite that has every operator of ONNX, in a fixed order.
std::vector<std::string> suite_seeds() {
  std::vector<std::string> seeds;
  std::error_code none;
  const std::filesystem::path suite = "/usr/share/libonnx-testdata/data";
  for (auto it = std::filesystem::recursive_directory_iterator(suite, none); it != decltype(it)(); it.increment(none)) {
    if (it->path().filename() != "model.onnx" || it->file_size() >= 4000) continue;
    if (auto bytes = read_file(it->path().string())) seeds.push_back(std::move(*bytes));
  }
  std::sort(seeds.begin(), seeds.end());
  return seeds;
}

struct Batch {
  int status = 0;  // as waitpid gives it
  int64_t imported = 0;
};

// Damaged copies of models, in a process that has little memory and time. `folder` has the last one, last.onnx.
Batch run_batch(const std::vector<std::string>& seeds, Rng rng, int64_t copies, const std::string& folder) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{kMemory, kMemory};
    setrlimit(RLIMIT_DATA, &limit);
    int64_t imported = 0;
    for (int64_t i = 0; i < copies; ++i) {
      // Every fourth is a random operator's.
      const Rng own = rng.fork(static_cast<uint64_t>(i));
      const std::string seed = i % 4 == 0 || seeds.empty() ? driver_test::OperatorMaker(own).make().bytes
                                                           : seeds[static_cast<size_t>(rng.below(std::ssize(seeds)))];
      const std::string bytes = mutated(seed, rng);
      if (!write_file(folder + "/last.onnx", bytes)) _exit(9);
      alarm(kSeconds);
      imported += import_or_end(bytes);
    }
    if (!write_file(folder + "/imported", std::to_string(imported))) _exit(9);
    _exit(0);
  }
  Batch batch;
  waitpid(child, &batch.status, 0);
  if (auto text = read_file(folder + "/imported"); text && batch.status == 0)
    batch.imported = std::strtoll(text->c_str(), nullptr, 10);
  return batch;
}

}  // namespace

TEST_CASE("damaged models end with a graph or an error", "[fuzz]") {
  const bool soak = std::getenv("TCC_SOAK") != nullptr;
  const char *given = std::getenv("TCC_SEED"), *minutes = std::getenv("TCC_SOAK_MINUTES");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261128;
  const std::vector<std::string> seeds = suite_seeds();
  auto folder = TemporaryDirectory::create("tcc-damaged-");
  REQUIRE(folder);
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::minutes(soak && minutes != nullptr ? std::strtol(minutes, nullptr, 10) : 0);
  constexpr int64_t kBatches = 24, kCopies = 500;
  int64_t imported = 0, files = 0;
  for (int64_t i = 0; i < kBatches || (soak && std::chrono::steady_clock::now() < end); ++i) {
    const Batch batch = run_batch(seeds, Rng(seed).fork(static_cast<uint64_t>(i)), kCopies, (*folder)->path());
    imported += batch.imported;
    files += kCopies;
    INFO("TCC_SEED=" << seed << ", batch " << i);
    if (batch.status != 0) {
      const std::string kept = std::filesystem::temp_directory_path().string() + "/tcc-damaged-" +
                               std::to_string(seed) + "-" + std::to_string(i) + ".onnx";
      std::filesystem::copy_file((*folder)->path() + "/last.onnx", kept,
                                 std::filesystem::copy_options::overwrite_existing);
      FAIL_CHECK("ended with status " << batch.status << " on " << kept);
    }
  }
  CHECK(imported > 100);
  CHECK(files - imported > 100);
  if (soak) std::fprintf(stderr, "%lld damaged files\n", static_cast<long long>(files));
}
