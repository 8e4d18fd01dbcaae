#include "emulation/host_program.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "emulation/host_block.h"
#include "emulation/host_prelude.h"
#include "tcc/ir/layout.h"
#include "tcc/support/check.h"

namespace tcc::testing {
namespace {

constexpr size_t kAlignment = 256;

// A buffer of a launch: bytes from an aligned address on, what is known of each element.
struct Storage {
  std::vector<unsigned char> bytes, contents;
  device::Region region;

  Storage(const codegen::BufferInfo& info, const std::string& name, bool defined) {
    const auto size = static_cast<size_t>(info.bytes);
    const auto element = static_cast<size_t>(ir::type_bytes(info.type));
    bytes.assign(size + kAlignment, 0xff);
    contents.assign(size, defined ? device::kDefined : device::kUndefined);
    const auto start = reinterpret_cast<uintptr_t>(bytes.data());
    unsigned char* at = bytes.data() + (kAlignment - start % kAlignment) % kAlignment;
    region = {at,
              contents.data(),
              static_cast<long long>(size / element),
              static_cast<int>(element),
              device::kDefined,
              name.c_str()};
  }
};

// Calls f(logical element, physical element).
template <class F>
void for_elements(const codegen::BufferInfo& info, const F& f) {
  const int64_t total = std::accumulate(info.shape.begin(), info.shape.end(), int64_t{1}, std::multiplies<>());
  Arena arena;
  const ir::Layout* layout = info.layout.empty() ? nullptr : ir::parse_layout(arena, info.layout).value();
  std::vector<int64_t> index(info.shape.size());
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i;
    for (size_t d = index.size(); d-- > 0;) {
      index[d] = rest % info.shape[d];
      rest /= info.shape[d];
    }
    f(i, layout == nullptr ? i : ir::apply(*layout, index).address);
  }
}

// What the compiler leaves a thread of a launch, of the 64 Ki registers of a multiprocessor:
// "__launch_bounds__(threads, blocks)" comes before its name.
int64_t registers_at_entry(const std::string& source, const codegen::Launch& l) {
  const size_t end = source.find(l.symbol + "(");
  const size_t bounds = source.rfind("__launch_bounds__(", end);
  TCC_CHECK(end != std::string::npos && bounds != std::string::npos, "no kernel {}", l.symbol);
  const size_t comma = source.find(',', bounds);
  const int64_t blocks = comma < end ? std::max<int64_t>(std::atoll(source.c_str() + comma + 1), 1) : 1;
  return std::min<int64_t>(65536 / (l.block[0] * l.block[1] * l.block[2] * blocks) / 8 * 8, 256);
}

}  // namespace

HostProgram::~HostProgram() {
  if (library_ != nullptr) dlclose(library_);
}

Result<size_t> HostProgram::add(const ir::Kernel& lowered, const target::Target& target) {
  TCC_TRY(codegen::CudaSource source,
          codegen::emit_cuda_source(lowered, target, {.prefix = fmt::format("k{}", entries_.size())}));
  text_ += source.text.substr(codegen::cuda_prelude().size());
  for (const codegen::Launch& l : source.launches) {
    std::string arguments;
    for (size_t i = 0; i < source.buffers.size(); ++i) arguments += fmt::format("{}p + {}", i == 0 ? "" : ", ", i);
    for (size_t i = 0; i < l.tensor_maps.size(); ++i) arguments += fmt::format(", tcc_tensor_map{{{}}}", i);
    text_ += fmt::format(
        "extern \"C\" __attribute__((visibility(\"default\"))) void enter_{0}(const TccRegion* p) {{ {0}({1}); }}\n",
        l.symbol, arguments);
  }
  Entry& entry = entries_.emplace_back(Entry{source.launches, source.buffers, {}});
  for (const codegen::Launch& l : source.launches) entry.registers[l.symbol] = registers_at_entry(source.text, l);
  return entries_.size() - 1;
}

Result<void> HostProgram::compile() {
  text_ = host_prelude() + text_;
  size_t begin = 0;
  for (size_t end; (end = text_.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines_.push_back(text_.substr(begin, end - begin));
  TCC_TRY(folder_, TemporaryDirectory::create("tcc-host"));
  const std::string base = folder_->path() + "/kernels";
  TCC_TRY_VOID(write_file(base + ".cpp", text_));
  const std::string command = fmt::format(
      "'{0}' -std=c++20 -w -O1 -fno-strict-aliasing -fvisibility=hidden -shared -fPIC -I'{1}/tests' -o '{2}.so' "
      "'{2}.cpp' 2> '{2}.log'",
      TCC_HOST_COMPILER, TCC_SOURCE_DIR, base);
  if (std::system(command.c_str()) != 0) {
    auto log = read_file(base + ".log");
    return environment_error("{}: {}", command, log ? log->substr(0, 4000) : "");
  }
  library_ = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return environment_error("{}", dlerror());
  return {};
}

HostReport HostProgram::run(size_t kernel, std::vector<interp::TensorData>& parameters, uint64_t seed) const {
  const Entry& entry = entries_.at(kernel);
  HostReport report;
  std::vector<Storage> storage;
  std::vector<std::string> names;
  storage.reserve(entry.buffers.size());
  names.reserve(entry.buffers.size());
  for (size_t i = 0; i < entry.buffers.size(); ++i) {
    const codegen::BufferInfo& info = entry.buffers[i];
    const bool given = i < parameters.size() && info.role != ir::BufferRole::kOutput;
    names.push_back(i < parameters.size() ? fmt::format("parameter {}", i) : fmt::format("workspace {}", i));
    Storage& s = storage.emplace_back(info, names.back(), given);
    if (!given) continue;
    const auto bytes = static_cast<size_t>(ir::type_bytes(info.type));
    for_elements(info, [&](int64_t logical, int64_t physical) {
      std::memcpy(s.region.data + static_cast<size_t>(physical) * bytes,
                  parameters[i].bytes.data() + static_cast<size_t>(logical) * bytes, bytes);
    });
  }
  std::vector<device::Region> regions;
  for (const Storage& s : storage) regions.push_back(s.region);
  auto bind = reinterpret_cast<void (*)(device::Host*)>(dlsym(library_, "tcc_bind"));
  for (const codegen::Launch& l : entry.launches) {
    auto enter = reinterpret_cast<void (*)(const device::Region*)>(dlsym(library_, ("enter_" + l.symbol).c_str()));
    run_on_host({enter, bind, l, regions, lines_, entry.registers.at(l.symbol)}, seed, report);
    if (!report.ok()) return report;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const codegen::BufferInfo& info = entry.buffers[i];
    if (info.role != ir::BufferRole::kOutput) continue;
    const auto bytes = static_cast<size_t>(ir::type_bytes(info.type));
    for_elements(info, [&](int64_t logical, int64_t physical) {
      std::memcpy(parameters[i].bytes.data() + static_cast<size_t>(logical) * bytes,
                  storage[i].region.data + static_cast<size_t>(physical) * bytes, bytes);
    });
  }
  return report;
}

}  // namespace tcc::testing
