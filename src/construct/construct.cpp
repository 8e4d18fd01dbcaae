// From traces to programs: the nest of each trace, one construction for all nests that have the same tiles, and the
// results as decisions of every trace of that kind, which differ in packed layouts, order and places of the epilogue.
#include "tcc/construct/construct.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "construct/methods.h"
#include "tcc/support/hash.h"

namespace tcc::construct {
namespace {

// Roller's tolerance of padding grows until there are results (its artifact: 0, 0.2, ... 1).
constexpr double kTolerances[] = {0, 0.2, 0.4, 0.6, 0.8, 1};
// Gensor has no such rule. On CPUs the last tile runs a smaller copy of the body, so that hardly anything is padded.
constexpr double kAnyTail[] = {1};

struct Candidate {
  size_t trace = 0;
  TileNest nest;
};

// Equal for nests whose tiles mean the same: loops, what runs them, and which memory holds them.
uint64_t kind_of(const TileNest& nest) {
  uint64_t h = combine_hash(static_cast<uint64_t>(nest.levels), static_cast<uint64_t>(nest.matrix));
  for (const Axis& axis : nest.axes) {
    for (int64_t v : {axis.extent, static_cast<int64_t>(axis.reduce), axis.sampled, axis.unit,
                      static_cast<int64_t>(axis.free), axis.limit, axis.multiple})
      h = combine_hash(h, static_cast<uint64_t>(v));
    for (const Factor& f : axis.factors)
      for (int64_t v :
           {static_cast<int64_t>(f.part), static_cast<int64_t>(f.level), static_cast<int64_t>(f.slot >= 0), f.size})
        h = combine_hash(h, static_cast<uint64_t>(v));
  }
  return h;
}

// Innermost factors have a limit, which tiles of axes that a nest has in several blocks do not know. The next factor
// takes what is beyond it.
void keep_limits(const schedule::Trace& trace, std::vector<int64_t>& decisions) {
  for (const schedule::Instruction& in : trace.instructions) {
    if (in.op != schedule::Op::kSamplePerfectTile || in.decision_length < 2) continue;
    const auto last = static_cast<size_t>(in.decision + in.decision_length - 1);
    const int64_t limit = schedule::integer(in, "max_innermost"), whole = decisions[last];
    if (whole <= limit) continue;
    int64_t kept = std::max<int64_t>(limit, 1);
    while (whole % kept != 0) --kept;
    decisions[last] = kept;
    decisions[last - 1] *= whole / kept;
  }
}

class Builder {
 public:
  Builder(std::span<const schedule::Trace> traces, const target::Target& target, const Options& options)
      : traces_(traces), target_(target), options_(options) {}

  Construction build(const ir::Kernel& start) {
    std::string why;
    std::vector<uint64_t> order;
    for (size_t i = 0; i < traces_.size(); ++i) {
      std::optional<TileNest> nest = find_tile_nest(traces_[i], start, target_, why);
      if (nest && nest->axes.size() > kMaxAxes) {
        why = fmt::format("its nest has {} loops, at most {} are tiled", nest->axes.size(), kMaxAxes);
        nest.reset();
      }
      if (!nest) {
        if (out_.reason.empty()) out_.reason = why;
        continue;
      }
      const uint64_t kind = kind_of(*nest);
      if (kinds_[kind].empty()) order.push_back(kind);
      kinds_[kind].push_back({i, std::move(*nest)});
    }
    // Where the constructions choose the register tile, they do not take what a module has chosen.
    const bool whole = std::any_of(order.begin(), order.end(), [&](uint64_t k) { return chooses_registers(k); });
    if (whole) std::erase_if(order, [&](uint64_t k) { return !chooses_registers(k); });
    for (uint64_t kind : order) add_kind(kinds_[kind], std::ssize(order));
    if (programs_.empty()) return simple();
    out_.reason.clear();
    out_.rule = plain_ ? std::string(kPlainPolicy) : std::string(method_name(options_.method));
    if (plain_) out_.reason = "no element that it reads serves several results";
    if (options_.order == Order::kModel)
      std::stable_sort(programs_.begin(), programs_.end(),
                       [](const Program& x, const Program& y) { return x.seconds < y.seconds; });
    if (std::ssize(programs_) > options_.most) programs_.resize(static_cast<size_t>(options_.most));
    out_.programs = std::move(programs_);
    return std::move(out_);
  }

 private:
  bool chooses_registers(uint64_t kind) const {
    const TileNest& nest = kinds_.at(kind).front().nest;
    return nest.has_reduction() && std::any_of(nest.axes.begin(), nest.axes.end(), [](const Axis& a) {
             return !a.reduce && std::any_of(a.factors.begin(), a.factors.end(),
                                             [](const Factor& f) { return f.slot >= 0 && f.level == 0; });
           });
  }

  void add_kind(const std::vector<Candidate>& same, int64_t kinds) {
    const TileNest& nest = same.front().nest;
    const bool reuse = nest.has_reuse() || (target_.cuda.sm_count == 0 && nest.has_overlap());
    const bool plain = nest.fused || !reuse || !nest.has_reduction();
    if (!plain) plain_ = false;
    const bool free = std::any_of(nest.axes.begin(), nest.axes.end(), [](const Axis& a) { return a.free; });
    size_t results = 0;
    const bool any_tail = !plain && options_.method == Method::kGensor && target_.cuda.sm_count == 0;
    for (double tolerance : any_tail ? std::span<const double>(kAnyTail) : std::span<const double>(kTolerances)) {
      const Problem problem(nest, target_, options_.threads, tolerance);
      Found found;
      if (plain || options_.method == Method::kRoller)
        found = roller(problem, options_, plain ? RollerVariant::kPlain : options_.variant);
      else
        found = gensor(problem, options_, std::max<int64_t>(options_.chains / kinds, 1),
                       Rng(options_.seed).fork(kind_of(nest)));
      out_.looked_at += found.looked_at;
      for (const Tiles& tiles : found.results) add_program(same, tiles);
      results += found.results.size();
      const size_t wanted = options_.method == Method::kRoller && !plain ? static_cast<size_t>(options_.top) : 1;
      if (results >= wanted || !free) return;
    }
  }

  void add_program(const std::vector<Candidate>& same, const Tiles& tiles) {
    for (const Candidate& c : same) {
      const Problem problem(c.nest, target_, options_.threads, 1);
      Program program{c.trace, problem.decisions(tiles, traces_[c.trace].decisions), problem.seconds(tiles)};
      keep_limits(traces_[c.trace], program.decisions);
      uint64_t h = c.trace;
      for (int64_t d : program.decisions) h = combine_hash(h, static_cast<uint64_t>(d));
      if (seen_.insert(h).second) programs_.push_back(std::move(program));
    }
  }

  Construction simple() {
    out_.rule = kSimpleSchedule;
    if (out_.reason.empty()) out_.reason = "no tile fits the machine";
    for (size_t i = 0; i < traces_.size() && std::ssize(out_.programs) < options_.most; ++i)
      out_.programs.push_back({i, traces_[i].decisions, 0});
    return std::move(out_);
  }

  const std::span<const schedule::Trace> traces_;
  const target::Target& target_;
  const Options& options_;
  std::map<uint64_t, std::vector<Candidate>> kinds_;
  std::vector<Program> programs_;
  std::unordered_set<uint64_t> seen_;
  bool plain_ = true;
  Construction out_;
};

}  // namespace

std::string_view method_name(Method method) {
  return method == Method::kRoller ? "roller" : "gensor";
}

Construction construct(std::span<const schedule::Trace> traces, const ir::Kernel& start, const target::Target& target,
                       const Options& options) {
  return Builder(traces, target, options).build(start);
}

}  // namespace tcc::construct
