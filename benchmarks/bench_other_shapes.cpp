// A network whose sizes change three times (Gensor, figure 12): MobileNet-V2 at other widths than that which has
// records. For each width a library is made and then runs 2,000 times, on two threads, in four ways:
//
//   plain      `tcc build --space none`: the plain loops
//   effort0    `tcc build` without any record
//   refit      `tcc build` from the records of the width of 100 percent alone: the nearest shape's schedules, fitted
//   evolution  `tcc tune` with --trials programs a task, then `tcc build`
//
// "shapes.WAY": seconds of making the libraries and of all runs, over the widths, beside evolution's.
// "shapes.WAY.make": seconds of making one library, the mean. "shapes.WAY.speed": the libraries' speed beside
// evolution's, the geometric mean; latencies are timed in turns. With --db the records of the first width are kept
// there. Evolution's are not: its seconds count.
#include <array>
#include <cmath>
#include <cstdio>

#include "bench.h"
#include "networks.h"
#include "tcc/record/store.h"
#include "tcc/support/files.h"

namespace tcc::benchmarks {
namespace {

constexpr int kShapeThreads = 2, kShapeRounds = 9;
constexpr double kShapeSlice = 0.4, kShapeTimeout = 120;  // seconds
constexpr double kInferences = 2000;
constexpr int64_t kUsualTrials = 64;
constexpr int kFirstWidth = 100;
constexpr std::array kWidths = {75, 50, 35};

// X(Name, text)
#define TCC_SHAPE_WAYS(X) X(Plain, "plain") X(Effort0, "effort0") X(Refit, "refit") X(Evolution, "evolution")
enum class ShapeWay {
#define TCC_X(name, text) k##name,
  TCC_SHAPE_WAYS(TCC_X)
#undef TCC_X
};
constexpr std::array kShapeWays = {
#define TCC_X(name, text) text,
    TCC_SHAPE_WAYS(TCC_X)
#undef TCC_X
};
constexpr size_t kWays = kShapeWays.size(), kEvolution = static_cast<size_t>(ShapeWay::kEvolution);

Network at_width(int width) {
  return {fmt::format("mobilenet_v2-{}", width), "zoo:mobilenet_v2", std::nullopt, {"--width", std::to_string(width)}};
}

struct Made {
  std::string library;
  double seconds = 0;  // of making it
};

class OtherShapes {
 public:
  explicit OtherShapes(std::string folder) : folder_(std::move(folder)), cpus_(usable_cpus()) {}

  Result<std::vector<Row>> rows() {
    if (std::ssize(cpus_) < kShapeThreads)
      return environment_error("expected {} CPUs, found {}", kShapeThreads, cpus_.size());
    cpus_.erase(cpus_.begin(), cpus_.end() - kShapeThreads);
    trials_ = options().trials_given ? options().trials : kUsualTrials;
    first_ = options().db.empty() ? folder_ + "/first.db" : options().db;
    TCC_TRY_VOID(make_directories(folder_ + "/first"));
    for (const char* way : kShapeWays) TCC_TRY_VOID(make_directories(fmt::format("{}/{}", folder_, way)));
    TCC_TRY_VOID(bench("first", first_, trials_).tune(at_width(kFirstWidth), kShapeThreads));
    for (const int width : kWidths) TCC_TRY_VOID(add(width));
    std::vector<Row> out;
    const auto count = static_cast<double>(kWidths.size());
    for (size_t w = 0; w < kWays; ++w) {
      const std::string name = fmt::format("shapes.{}", kShapeWays[w]);
      const bool peer = w == kEvolution;
      out.push_back({name, total_[w], "s", peer ? "" : "evolution", peer ? 0 : total_[kEvolution],
                     peer ? 0 : total_[kEvolution] / total_[w]});
      out.push_back({name + ".make", make_[w] / count, "s", "", 0, 0});
      if (!peer) out.push_back({name + ".speed", std::exp(log_speed_[w] / count), "of evolution's", "", 0, 0});
    }
    return out;
  }

 private:
  NetworkBench bench(const std::string& name, const std::string& records, int64_t trials) const {
    return {folder_ + "/" + name, {"", trials, records, false}};
  }

  Result<Made> make(ShapeWay way, int width) const {
    const Network network = at_width(width);
    const std::string own = fmt::format("{}/{}-{}.db", folder_, kShapeWays[static_cast<size_t>(way)], width);
    TCC_TRY(const auto without_records, record::Store::open(own));
    const Stopwatch watch;
    const NetworkBench made = bench(kShapeWays[static_cast<size_t>(way)], way == ShapeWay::kRefit ? first_ : own,
                                    way == ShapeWay::kEvolution ? trials_ : 0);
    if (way == ShapeWay::kEvolution) TCC_TRY_VOID(made.tune(network, kShapeThreads));
    std::vector<std::string> words;
    if (way == ShapeWay::kPlain) words = {"--space", "none"};
    TCC_TRY(std::string library, made.build(network, kShapeThreads, words));
    return Made{std::move(library), watch.seconds()};
  }

  Result<void> add(int width) {
    std::array<Made, kWays> made;
    std::vector<Contestant> contestants;
    for (size_t w = 0; w < kWays; ++w) {
      TCC_TRY(made[w], make(static_cast<ShapeWay>(w), width));
      contestants.push_back(bench(kShapeWays[w], first_, 0).start_library(made[w].library, kShapeThreads, cpus_));
      if (!contestants[w].failure.empty())
        return environment_error("{} at width {}: {}", kShapeWays[w], width, contestants[w].failure);
    }
    for (int round = 0; round < kShapeRounds; ++round)
      for (Contestant& c : contestants) {
        TCC_TRY(const nlohmann::json answer, c.process->ask(fmt::format("run {}", kShapeSlice), kShapeTimeout));
        c.seconds.push_back(answer.value("seconds", 0.0));
      }
    const double tuned = median(contestants[kEvolution].seconds);
    for (size_t w = 0; w < kWays; ++w) {
      const double latency = median(contestants[w].seconds);
      std::fprintf(stderr, "shapes: width %d, %s: made in %.1f s, %.3f ms\n", width, kShapeWays[w], made[w].seconds,
                   1e3 * latency);
      total_[w] += made[w].seconds + kInferences * latency;
      make_[w] += made[w].seconds;
      log_speed_[w] += std::log(tuned / latency);
    }
    return {};
  }

  const std::string folder_;
  std::vector<int> cpus_;
  int64_t trials_ = 0;
  std::string first_;  // records
  std::array<double, kWays> total_ = {}, make_ = {}, log_speed_ = {};
};

}  // namespace

std::vector<Row> run_other_shapes_suite(double) {
  auto folder = TemporaryDirectory::create("tcc-bench-shapes");
  Result<std::vector<Row>> rows = folder ? OtherShapes((*folder)->path()).rows() : tl::make_unexpected(folder.error());
  if (rows) return *rows;
  std::fprintf(stderr, "shapes: %s\n", rows.error().message.c_str());
  return {{"shapes", 0, "", "did not run: " + rows.error().message, 0, 0}};
}

}  // namespace tcc::benchmarks
