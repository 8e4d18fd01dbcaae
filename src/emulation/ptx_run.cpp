// Launches: memory for buffers, blocks one after another or all at once, and what the report says.
#include <algorithm>
#include <cfenv>
#include <numeric>
#include <set>

#include "emulation/ptx_machine.h"
#include "tcc/support/check.h"

namespace tcc::emulation {
namespace {

constexpr int64_t kMaxThreadsAlive = int64_t{1} << 17;
constexpr int64_t kMaxShared = int64_t{1} << 24;
constexpr int64_t kMaxState = int64_t{1} << 31;  // bytes of registers and local memory

// Kernels round to nearest and say themselves where subnormals are flushed.
class PlainArithmetic {
 public:
  PlainArithmetic() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~PlainArithmetic() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
};

Result<void> check_map(const codegen::Launch& l, const codegen::TensorMap& map, size_t buffers) {
  const size_t rank = map.dims.size();
  bool fine = map.buffer >= 0 && static_cast<size_t>(map.buffer) < buffers && rank >= 1 && rank <= 5 &&
              map.strides.size() + 1 == rank && map.box.size() == rank &&
              (map.swizzle == 0 || map.swizzle == 32 || map.swizzle == 64 || map.swizzle == 128);
  const int64_t element = ir::type_bytes(map.type);
  for (size_t d = 0; fine && d < rank; ++d)
    fine = map.dims[d] > 0 && map.box[d] > 0 && map.box[d] <= 256 && (d == 0 || map.strides[d - 1] % 16 == 0);
  fine = fine && map.box[0] * element % 16 == 0 && (map.swizzle == 0 || map.box[0] * element <= map.swizzle);
  if (!fine) return input_error("kernel '{}' is given a tensor map that cannot be", l.symbol);
  return {};
}

Result<const KernelCode*> find_kernel(const PtxModule::Impl& module, const codegen::Launch& l, size_t buffers) {
  const auto found = std::find_if(module.kernels.begin(), module.kernels.end(),
                                  [&](const KernelCode& k) { return k.name == l.symbol; });
  if (found == module.kernels.end()) return input_error("the PTX has no kernel '{}'", l.symbol);
  if (found->pointers != buffers)
    return input_error("kernel '{}' has {} parameters and {} buffers are given", l.symbol, found->pointers, buffers);
  if (found->params.size() - found->pointers != l.tensor_maps.size())
    return input_error("kernel '{}' has {} tensor maps and {} are given", l.symbol,
                       found->params.size() - found->pointers, l.tensor_maps.size());
  for (const codegen::TensorMap& map : l.tensor_maps) TCC_TRY_VOID(check_map(l, map, buffers));
  int64_t threads = 1, blocks = 1;
  for (int i = 0; i < 3; ++i) {
    const auto d = static_cast<size_t>(i);
    if (l.block[d] < 1 || l.block[d] > 1024 || l.grid[d] < 1 || l.grid[d] > INT32_MAX)
      return input_error("kernel '{}': a grid or block extent is out of range", l.symbol);
    if (l.grid[d] % found->cluster[d] != 0)
      return input_error("kernel '{}': the grid is not made of whole clusters", l.symbol);
    if (l.cluster[d] != 1 && l.cluster[d] != found->cluster[d])
      return input_error("kernel '{}' is made for other clusters", l.symbol);
    if (found->required[0] != 0 && found->required[d] != l.block[d])
      return input_error("kernel '{}' requires another block", l.symbol);
    threads *= l.block[d];
    blocks *= l.grid[d];
    if (blocks > INT32_MAX) return input_error("kernel '{}': too many blocks", l.symbol);
  }
  if (threads > std::min<int64_t>(found->max_threads, 1024))
    return input_error("kernel '{}' allows {} threads in a block and {} are asked for", l.symbol, found->max_threads,
                       threads);
  const int64_t slots = (threads + kLanes - 1) / kLanes * kLanes + (found->async_proxy ? kLanes : 0);
  if (blocks * slots > INT64_C(0xffffffff) || (l.cooperative && blocks * slots > kMaxThreadsAlive) ||
      (l.cooperative && found->cluster != std::array<int64_t, 3>{1, 1, 1}))
    return input_error("kernel '{}': {} blocks of {} threads are too many to emulate", l.symbol, blocks, threads);
  const int64_t state = slots * (found->register_bytes / kLanes + found->local_bytes);
  if (state * (l.cooperative ? blocks : 1) > kMaxState)
    return input_error("kernel '{}': its registers and local memory are too many to emulate", l.symbol);
  if (l.shared_bytes < 0 || found->dynamic_offset + l.shared_bytes > kMaxShared)
    return input_error("kernel '{}': too much shared memory", l.symbol);
  return &*found;
}

// The first, the last and others.
std::vector<int64_t> choose_blocks(int64_t all, int64_t most, uint64_t seed) {
  std::vector<int64_t> chosen;
  if (most <= 0 || most >= all) {
    chosen.resize(static_cast<size_t>(all));
    std::iota(chosen.begin(), chosen.end(), int64_t{0});
    return chosen;
  }
  std::set<int64_t> some = {0};
  if (most > 1) some.insert(all - 1);
  Rng rng(seed);
  while (static_cast<int64_t>(some.size()) < most) some.insert(rng.below(all));
  chosen.assign(some.begin(), some.end());
  return chosen;
}

void make_regions(Machine& m, std::span<const PtxBuffer> buffers, std::vector<std::vector<bool>>* written) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    auto r = std::make_unique<Region>();
    r->name = buffers[i].name;
    r->data = buffers[i].data;
    r->size = buffers[i].bytes;
    r->writable = buffers[i].writable;
    if (written != nullptr) r->written = &(*written)[i];
    if (!buffers[i].defined) {
      r->track_contents(false);
      if (written != nullptr)
        for (size_t b = 0; b < r->contents_storage.size(); ++b)
          r->contents[b] = (*written)[i][b] ? kDefined : kUndefined;
    }
    if (m.races && r->writable) r->track_order(m.kernel->global_granule);
    m.regions.push_back(std::move(r));
    m.params.push_back(buffer_address(i));
  }
  for (const codegen::TensorMap& map : m.launch->tensor_maps)
    m.maps.push_back(
        {&map, m.regions[static_cast<size_t>(map.buffer)].get(), buffer_address(static_cast<size_t>(map.buffer))});
  for (const Variable& v : m.module->data) {
    auto r = std::make_unique<Region>();
    r->name = v.name;
    r->size = v.bytes;
    r->data_storage.assign(static_cast<size_t>(v.bytes) + 16, std::byte{0});
    std::copy(v.initial.begin(), v.initial.end(), r->data_storage.begin());
    r->data = r->data_storage.data();
    r->writable = false;
    m.regions.push_back(std::move(r));
  }
}

// The blocks of a cluster are neighbors in each dimension of the grid.
int64_t block_of_cluster(const Machine& m, int64_t cluster, int64_t rank) {
  const auto& c = m.kernel->cluster;
  const auto& g = m.launch->grid;
  const int64_t x = g[0] / c[0], y = g[1] / c[1];
  const int64_t at[] = {cluster % x * c[0] + rank % c[0], cluster / x % y * c[1] + rank / c[0] % c[1],
                        cluster / x / y * c[2] + rank / c[0] / c[1]};
  return at[0] + g[0] * (at[1] + g[1] * at[2]);
}

void run_grid(Machine& m, const std::vector<int64_t>& chosen, int64_t all) {
  const int64_t together = m.kernel->cluster[0] * m.kernel->cluster[1] * m.kernel->cluster[2];
  if (m.launch->cooperative) {
    for (int64_t b = 0; b < all; ++b) {
      m.blocks.push_back(m.make_block());
      m.start_block(*m.blocks.back(), b);
    }
    m.run_alive();
    m.report_to->blocks += all;
    return;
  }
  for (int64_t n = 0; n < together; ++n) m.blocks.push_back(m.make_block());
  int64_t ran = 0;
  for (int64_t c : chosen) {
    m.cluster_barrier = {};
    for (int64_t n = 0; n < together; ++n) m.start_block(*m.blocks[static_cast<size_t>(n)], block_of_cluster(m, c, n));
    m.run_alive();
    if (!m.stopped && m.kernel->async_proxy)
      for (auto& b : m.blocks) m.check_end(*b);
    ++ran;
    m.report_to->blocks += together;
    if (m.stopped) return;
    const auto left = static_cast<int64_t>(chosen.size()) - ran;
    const double needed =
        static_cast<double>(m.instructions) / static_cast<double>(ran) * static_cast<double>(left + ran);
    if (ran == 1 && needed > static_cast<double>(m.limit)) {
      m.report(FindingKind::kStepLimit, *m.blocks[0]->warps[0], 0, m.kernel->code[0],
               fmt::format("{} blocks need about {:.3g} instructions of threads, more than the limit of {}",
                           static_cast<int64_t>(chosen.size()) * together, needed, m.limit));
      m.stopped = true;
      return;
    }
  }
}

}  // namespace

Result<void> launch_into(const PtxModule& module, const codegen::Launch& launch, std::span<const PtxBuffer> buffers,
                         const PtxOptions& options, PtxReport& report, std::vector<std::vector<bool>>* written) {
  const PlainArithmetic plain;
  Machine m;
  TCC_TRY(m.kernel, find_kernel(module.impl(), launch, buffers.size()));
  m.module = &module.impl();
  m.launch = &launch;
  m.options = &options;
  m.report_to = &report;
  m.races = options.check_races;
  m.limit = options.max_instructions > 0 ? options.max_instructions : int64_t{1} << 60;
  m.threads = static_cast<int>(launch.block[0] * launch.block[1] * launch.block[2]);
  m.rng = Rng(options.seed);
  make_regions(m, buffers, written);
  const int64_t all = launch.grid[0] * launch.grid[1] * launch.grid[2];
  const int64_t together = m.kernel->cluster[0] * m.kernel->cluster[1] * m.kernel->cluster[2];
  m.clustered = together > 1;
  const int64_t most =
      launch.cooperative || options.max_blocks == 0 ? 0 : std::max<int64_t>(options.max_blocks / together, 1);
  const std::vector<int64_t> chosen = choose_blocks(all / together, most, options.seed);
  const int64_t before = report.blocks;
  run_grid(m, chosen, all);
  report.all_blocks += all;
  report.instructions += m.instructions;
  const int64_t ran = report.blocks - before;
  report.expected += ran == 0 ? 0
                              : static_cast<int64_t>(static_cast<double>(m.instructions) / static_cast<double>(ran) *
                                                     static_cast<double>(all));
  return {};
}

std::string Machine::place_text(const Region& region, int64_t offset) const {
  if (region.shared) {
    for (const Variable& v : kernel->shared) {
      const int64_t bytes = v.dynamic ? launch->shared_bytes : v.bytes;
      if (offset >= v.offset && offset < v.offset + bytes + 256)
        return fmt::format("byte {} of shared {}", offset - v.offset, v.name);
    }
  }
  return fmt::format("byte {} of {}", offset, region.name);
}

void Machine::report(interp::Finding::Kind kind, const Warp& w, int lane, const Ins& ins, const std::string& what) {
  const auto [known, fresh] =
      known_findings.try_emplace({static_cast<int>(kind), ins.line}, report_to->findings.size());
  if (!fresh) {
    if (known->second < report_to->findings.size()) ++report_to->findings[known->second].count;
    return;
  }
  if (static_cast<int>(report_to->findings.size()) >= options->max_findings) {
    known->second = SIZE_MAX;
    return;
  }
  const int64_t thread = w.index * kLanes + lane;
  const auto& at = w.block->at;
  std::string line = ins.line >= 1 && ins.line <= static_cast<int32_t>(module->lines.size())
                         ? module->lines[static_cast<size_t>(ins.line - 1)]
                         : "";
  line.erase(0, line.find_first_not_of(" \t"));
  std::replace(line.begin(), line.end(), '\t', ' ');
  report_to->findings.push_back(
      {kind,
       fmt::format("{}; block ({}, {}, {}) thread ({}, {}, {}), {}, PTX line {}: {}", what, at[0], at[1], at[2],
                   thread % launch->block[0], thread / launch->block[0] % launch->block[1],
                   thread / launch->block[0] / launch->block[1], kernel->name, ins.line, line),
       1});
}

Result<PtxReport> run_ptx(const PtxModule& module, const codegen::Launch& launch, std::span<const PtxBuffer> buffers,
                          const PtxOptions& options) {
  PtxReport report;
  std::vector<std::vector<bool>> written;
  for (const PtxBuffer& b : buffers) written.emplace_back(static_cast<size_t>(b.bytes), false);
  TCC_TRY_VOID(launch_into(module, launch, buffers, options, report, options.max_blocks > 0 ? &written : nullptr));
  if (options.max_blocks > 0) report.written = std::move(written);
  return report;
}

}  // namespace tcc::emulation
