// A library that tcc built, as a program of the models suite; see peer.h for the protocol. Its one operation is
// "model":
//
//   prepare model library=FILE threads=N dump=FILE  ->  {"outputs": [elements, ...]}; the outputs as f32 in the file
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>

#include "peer.h"
#include "tcc/package/loaded_model.h"
#include "tcc/support/files.h"

namespace {

using namespace tcc;
using namespace tcc::benchmarks;

std::runtime_error failure(const Error& error) {
  return std::runtime_error(error.message);
}

// Memory as the peers in Python have it. Tensors begin at a line of the cache: loads of one wait for stores of another
// where their addresses overlap in the lowest 12 bits. Large tensors ask for huge pages, as NumPy's do.
template <class T>
struct ArrayMemory {
  using value_type = T;
  ArrayMemory() = default;
  template <class U>
  ArrayMemory(const ArrayMemory<U>&) {}
  T* allocate(size_t count) {
    constexpr size_t kLine = 64, kLarge = size_t{4} << 20;
    const size_t bytes = (count * sizeof(T) + kLine - 1) / kLine * kLine;
    void* memory = std::aligned_alloc(kLine, std::max(bytes, kLine));
    if (memory == nullptr) throw std::bad_alloc();
    if (bytes >= kLarge) {
      const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
      const uintptr_t at = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
      // A request: where it is refused, pages are small.
      madvise(reinterpret_cast<void*>(at), reinterpret_cast<uintptr_t>(memory) + bytes - at, MADV_HUGEPAGE);
    }
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }
  bool operator==(const ArrayMemory&) const { return true; }
};
using Array = std::vector<std::byte, ArrayMemory<std::byte>>;

// Small numbers for floats; any number for bytes; 0 or 1 for wider integers, which are ids, masks and segments alike.
Array input_data(const package::TensorSpec& spec, uint32_t tensor) {
  const int64_t count = graph::element_count(spec.shape);
  std::vector<double> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const double v = data_at(i, tensor), bits = (v + 1) * 128;
    double& number = numbers[static_cast<size_t>(i)];
    number = graph::is_float(spec.dtype) ? v : bits - 2 * std::floor(bits / 2);
    if (spec.dtype == graph::DType::kU8) number = bits;
    if (spec.dtype == graph::DType::kI8) number = bits - 128;
  }
  auto bytes = graph::make_constant_from_doubles(spec.dtype, numbers);
  return {bytes.bytes.begin(), bytes.bytes.end()};
}

class ModelOperation : public Operation {
 public:
  ModelOperation(const std::string& library, int threads) {
    auto model = package::LoadedModel::open(library);
    if (!model) throw failure(model.error());
    model_ = *model;
    auto context = model_->create_context({.threads = threads});
    if (!context) throw failure(context.error());
    context_ = std::move(*context);
    for (const auto& spec : model_->inputs())
      inputs_.push_back(input_data(spec, static_cast<uint32_t>(inputs_.size())));
    for (const auto& spec : model_->outputs()) outputs_.emplace_back(static_cast<size_t>(spec.bytes));
    for (auto& bytes : inputs_) input_pointers_.push_back(bytes.data());
    for (auto& bytes : outputs_) output_pointers_.push_back(bytes.data());
  }
  void run() override {
    auto done = context_->run(input_pointers_, output_pointers_);
    if (!done) throw failure(done.error());
  }
  std::vector<float> output() override {
    std::vector<float> all;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      for (double v : graph::constant_doubles(graph::make_constant({outputs_[i].begin(), outputs_[i].end()}),
                                              model_->outputs()[i].dtype, elements(i)))
        all.push_back(static_cast<float>(v));
    }
    return all;
  }
  std::string sizes() const {
    std::string text;
    for (size_t i = 0; i < outputs_.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(elements(i));
    return text;
  }

 private:
  // Of the last run: an output may be as long as the data say.
  int64_t elements(size_t i) const { return graph::element_count(context_->output_shape(i)); }

  std::shared_ptr<package::LoadedModel> model_;
  std::unique_ptr<package::ModelContext> context_;
  std::vector<Array> inputs_, outputs_;
  std::vector<const void*> input_pointers_;
  std::vector<void*> output_pointers_;
};

std::map<std::string, std::string> parse_words(std::istringstream& words) {
  std::map<std::string, std::string> fields;
  for (std::string word; words >> word;) {
    size_t equals = word.find('=');
    if (equals != std::string::npos) fields[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return fields;
}

}  // namespace

int main() {
  std::unique_ptr<ModelOperation> operation;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "quit") break;
    try {
      double seconds = 0;
      if (verb == "prepare") {
        auto fields = parse_words(words);
        operation = std::make_unique<ModelOperation>(fields["library"], std::stoi(fields["threads"]));
        operation->run();
        std::vector<float> all = operation->output();
        std::ofstream(fields["dump"], std::ios::binary)
            .write(reinterpret_cast<const char*>(all.data()), static_cast<std::streamsize>(all.size() * sizeof(float)));
        std::printf("{\"outputs\": [%s]}\n", operation->sizes().c_str());
      } else if (verb == "run" && words >> seconds && operation) {
        detail::time_operation(*operation, seconds);
      } else {
        std::printf("{\"error\": \"not understood or nothing prepared: %s\"}\n", detail::json_text(line).c_str());
      }
    } catch (const std::exception& e) {
      std::printf("{\"error\": \"%s\"}\n", detail::json_text(e.what()).c_str());
    }
    std::fflush(stdout);
  }
  return 0;
}
