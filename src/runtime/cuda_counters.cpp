#include "tcc/runtime/cuda_counters.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/cupti_counters.h"
#include "runtime/cupti_library.h"

namespace tcc::runtime {
namespace {

#define TCC_CUPTI_FUNCTIONS(X)                                                       \
  X(cuptiProfilerInitialize, tcc_cupti_initialize, private_data)                     \
  X(cuptiDeviceGetChipName, tcc_cupti_chip, chip)                                    \
  X(cuptiProfilerGetCounterAvailability, tcc_cupti_availability, image)              \
  X(cuptiProfilerHostInitialize, tcc_cupti_host, host)                               \
  X(cuptiProfilerHostDeinitialize, tcc_cupti_host_end, host)                         \
  X(cuptiProfilerHostConfigAddMetrics, tcc_cupti_add_metrics, num_metrics)           \
  X(cuptiProfilerHostGetConfigImageSize, tcc_cupti_config_size, bytes)               \
  X(cuptiProfilerHostGetConfigImage, tcc_cupti_config, image)                        \
  X(cuptiProfilerHostEvaluateToGpuValues, tcc_cupti_evaluate, values)                \
  X(cuptiRangeProfilerEnable, tcc_cupti_enable, ranges)                              \
  X(cuptiRangeProfilerDisable, tcc_cupti_ranges, ranges)                             \
  X(cuptiRangeProfilerStart, tcc_cupti_ranges, ranges)                               \
  X(cuptiRangeProfilerStop, tcc_cupti_stop, all_passes)                              \
  X(cuptiRangeProfilerPushRange, tcc_cupti_push, name)                               \
  X(cuptiRangeProfilerPopRange, tcc_cupti_ranges, ranges)                            \
  X(cuptiRangeProfilerDecodeData, tcc_cupti_decode, dropped)                         \
  X(cuptiRangeProfilerGetCounterDataSize, tcc_cupti_counter_size, bytes)             \
  X(cuptiRangeProfilerCounterDataImageInitialize, tcc_cupti_counter_image, counters) \
  X(cuptiRangeProfilerSetConfig, tcc_cupti_set_config, target_nesting)

constexpr int kMaxPasses = 64;
constexpr const char* kMayRead =
    "counters of the device are for administrators: run as root, or have the driver's module option "
    "NVreg_RestrictProfilingToAdminUsers=0 set; times do not need them";

// What is counted: the first of the names that the chip knows.
struct Wanted {
  std::vector<const char*> names;
  double CudaCounts::* to;
  double factor;
};
const std::vector<Wanted>& wanted() {
  static const std::vector<Wanted> list = {
      {{"dram__bytes_read.sum"}, &CudaCounts::dram_bytes, 1},
      {{"dram__bytes_write.sum"}, &CudaCounts::dram_bytes, 1},
      {{"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"},
       &CudaCounts::tensor_share,
       0.01},
      {{"sm__warps_active.avg.pct_of_peak_sustained_active"}, &CudaCounts::occupancy, 0.01}};
  return list;
}

class Counters final : public CudaCounters {
 public:
  explicit Counters(CudaDevice& device) : device_(device) {}
  ~Counters() override { end_host(host_); }

  Result<void> start(int ordinal, std::shared_ptr<DynamicLibrary> library) {
    library_ = std::move(library);
#define TCC_LOAD(name, type, last) name##_ = library_->function<int (*)(type*)>(#name);
    TCC_CUPTI_FUNCTIONS(TCC_LOAD)
#undef TCC_LOAD
#define TCC_MISSING(name, type, last) \
  if (name##_ == nullptr)             \
    return environment_error("{} has no {}: its CUPTI is older than CUDA 12.6", library_->path(), #name);
    TCC_CUPTI_FUNCTIONS(TCC_MISSING)
#undef TCC_MISSING
    TCC_TRY_VOID(cuptiProfilerInitialize({}));
    tcc_cupti_chip chip{.device = static_cast<size_t>(ordinal)};
    TCC_TRY_VOID(cuptiDeviceGetChipName(chip));
    chip_ = chip.chip == nullptr ? "" : chip.chip;
    tcc_cupti_availability availability{.context = device_.context()};
    TCC_TRY_VOID(cuptiProfilerGetCounterAvailability(availability));
    availability_.resize(availability.image_bytes);
    availability.image = availability_.data();
    TCC_TRY_VOID(cuptiProfilerGetCounterAvailability(availability));
    return choose_metrics();
  }

  Result<CudaCounts> count(const std::function<Result<void>()>& run) override {
    TCC_TRY_VOID(device_.synchronise());
    tcc_cupti_enable enable{.context = device_.context()};
    TCC_TRY_VOID(cuptiRangeProfilerEnable(enable));
    Result<std::vector<uint8_t>> image = collect(enable.ranges, run);
    Result<void> ended = cuptiRangeProfilerDisable({.ranges = enable.ranges});
    if (!image) return tl::make_unexpected(image.error());
    TCC_TRY_VOID(std::move(ended));
    return evaluate(*image);
  }

 private:
// A call, by the structure whose size it fills in.
#define TCC_CALL(name, type, last)                               \
  Result<void> name(type& p) const {                             \
    p.struct_size = TCC_CUPTI_SIZE(type, last);                  \
    const int status = name##_(&p);                              \
    return status == 0 ? Result<void>() : failed(#name, status); \
  }                                                              \
  Result<void> name(type&& p) const { return name(p); }          \
  int (*name##_)(type*) = nullptr;
  TCC_CUPTI_FUNCTIONS(TCC_CALL)
#undef TCC_CALL

  Result<void> failed(const char* what, int status) const {
    if (status == TCC_CUPTI_NO_PRIVILEGES || status == TCC_CUPTI_NO_PRIVILEGES_INSIDE)
      return make_error(ErrorClass::kEnvironment, "this user may not read the device's counters", kMayRead);
    return environment_error("{}: status {}", what, status);
  }

  Result<void*> make_host() const {
    tcc_cupti_host p{.profiler = TCC_CUPTI_RANGE_PROFILER, .chip = chip_.c_str(), .availability = availability_.data()};
    TCC_TRY_VOID(cuptiProfilerHostInitialize(p));
    return p.host;
  }
  void end_host(void* host) const {
    if (host != nullptr) (void)cuptiProfilerHostDeinitialize({.host = host});
  }
  Result<void> add(void* host, std::vector<const char*> names) const {
    return cuptiProfilerHostConfigAddMetrics({.host = host, .metrics = names.data(), .num_metrics = names.size()});
  }

  // Which metrics the chip has, each asked for alone; then the configuration for all of them.
  Result<void> choose_metrics() {
    for (const Wanted& w : wanted()) {
      for (const char* name : w.names) {
        TCC_TRY(void* host, make_host());
        const bool known = add(host, {name}).has_value();
        end_host(host);
        if (!known) continue;
        metrics_.push_back(name);
        of_metric_.push_back(&w);
        break;
      }
    }
    if (metrics_.empty()) return environment_error("{} counts nothing that is asked for", chip_);
    TCC_TRY(host_, make_host());
    TCC_TRY_VOID(add(host_, metrics_));
    tcc_cupti_config_size size{.host = host_};
    TCC_TRY_VOID(cuptiProfilerHostGetConfigImageSize(size));
    config_.resize(size.bytes);
    return cuptiProfilerHostGetConfigImage({.host = host_, .bytes = config_.size(), .image = config_.data()});
  }

  Result<std::vector<uint8_t>> collect(void* ranges, const std::function<Result<void>()>& run) {
    tcc_cupti_counter_size size{
        .ranges = ranges, .metrics = metrics_.data(), .num_metrics = metrics_.size(), .max_ranges = 1, .max_nodes = 1};
    TCC_TRY_VOID(cuptiRangeProfilerGetCounterDataSize(size));
    std::vector<uint8_t> counters(size.bytes);
    TCC_TRY_VOID(cuptiRangeProfilerCounterDataImageInitialize(
        {.ranges = ranges, .bytes = counters.size(), .counters = counters.data()}));
    TCC_TRY_VOID(cuptiRangeProfilerSetConfig({.ranges = ranges,
                                              .config_bytes = config_.size(),
                                              .config = config_.data(),
                                              .counter_bytes = counters.size(),
                                              .counters = counters.data(),
                                              .range = TCC_CUPTI_USER_RANGE,
                                              .replay = TCC_CUPTI_USER_REPLAY,
                                              .max_ranges = 1,
                                              .nesting_levels = 1,
                                              .least_nesting = 1,
                                              .target_nesting = 1}));
    for (int pass = 0; pass < kMaxPasses; ++pass) {
      TCC_TRY(const bool last, run_pass(ranges, run));
      if (!last) continue;
      tcc_cupti_decode decode{.ranges = ranges};
      TCC_TRY_VOID(cuptiRangeProfilerDecodeData(decode));
      if (decode.dropped > 0) return environment_error("CUPTI dropped {} ranges", decode.dropped);
      return counters;
    }
    return environment_error("the counters take more than {} passes", kMaxPasses);
  }

  // True: no pass is left.
  Result<bool> run_pass(void* ranges, const std::function<Result<void>()>& run) {
    TCC_TRY_VOID(cuptiRangeProfilerStart({.ranges = ranges}));
    TCC_TRY_VOID(cuptiRangeProfilerPushRange({.ranges = ranges, .name = "run"}));
    Result<void> done = run();
    if (done) done = device_.synchronise();
    Result<void> popped = cuptiRangeProfilerPopRange({.ranges = ranges});
    tcc_cupti_stop stop{.ranges = ranges};
    Result<void> stopped = cuptiRangeProfilerStop(stop);
    TCC_TRY_VOID(std::move(done));
    TCC_TRY_VOID(std::move(popped));
    TCC_TRY_VOID(std::move(stopped));
    return stop.all_passes != 0;
  }

  Result<CudaCounts> evaluate(const std::vector<uint8_t>& counters) {
    std::vector<double> values(metrics_.size(), NAN);
    TCC_TRY_VOID(cuptiProfilerHostEvaluateToGpuValues({.host = host_,
                                                       .counters = counters.data(),
                                                       .counter_bytes = counters.size(),
                                                       .metrics = metrics_.data(),
                                                       .num_metrics = metrics_.size(),
                                                       .values = values.data()}));
    CudaCounts counts;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i]) || values[i] < 0) continue;
      double& to = counts.*of_metric_[i]->to;
      to = std::max(to, 0.0) + values[i] * of_metric_[i]->factor;
    }
    return counts;
  }

  CudaDevice& device_;
  std::shared_ptr<DynamicLibrary> library_;
  std::string chip_;
  std::vector<uint8_t> availability_, config_;
  std::vector<const char*> metrics_;
  std::vector<const Wanted*> of_metric_;  // of each metric
  void* host_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<CudaCounters>> CudaCounters::open(CudaDevice& device, int ordinal, const std::string& library) {
  TCC_TRY(std::shared_ptr<DynamicLibrary> opened, open_cupti(library));
  auto counters = std::make_unique<Counters>(device);
  TCC_TRY_VOID(counters->start(ordinal, std::move(opened)));
  return std::unique_ptr<CudaCounters>(std::move(counters));
}

}  // namespace tcc::runtime
