#include "tcc/search/model_measurer.h"

#include <algorithm>

#include "tcc/support/hash.h"

namespace tcc::search {
namespace {

constexpr int64_t kAtOnce = 16;  // more than a task's finalists
constexpr int64_t kRankedPopulation = 384, kRankedGenerations = 12;

double fact(const codegen::Artifact& artifact, const char* name) {
  auto found = artifact.facts.find(name);
  return found == artifact.facts.end() ? 0.0 : found->second;
}

}  // namespace

ModelMeasurer::ModelMeasurer(Compile compile, std::string isa, ThreadPool* pool, Expect expect)
    : compile_(std::move(compile)),
      expect_(std::move(expect)),
      device_(std::make_shared<measure::DeviceFacts>(measure::DeviceFacts{std::move(isa), ""})),
      pool_(pool) {}

measure::MeasurerTraits ModelMeasurer::traits() const {
  return {.kind = record::Kind::kPredicted, .at_once = kAtOnce, .compares = false};
}

double ModelMeasurer::expected(const measure::Candidate& candidate, const codegen::Artifact& artifact) const {
  const bool told = std::any_of(artifact.launches.begin(), artifact.launches.end(),
                                [](const codegen::Launch& l) { return l.registers > 0; });
  if (!expect_ || !told || candidate.nest.root == nullptr) return candidate.expected_seconds;
  return expect_(candidate.nest, artifact);
}

Result<std::vector<measure::Measurement>> ModelMeasurer::measure(std::span<const measure::Candidate> candidates) {
  std::vector<Result<codegen::Artifact>> artifacts(candidates.size());
  parallel_for(pool_, std::ssize(candidates), [&](int64_t i) {
    artifacts[static_cast<size_t>(i)] = compile_(candidates[static_cast<size_t>(i)].kernel);
  });
  std::vector<measure::Measurement> out(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    measure::Measurement& m = out[i];
    m.id = candidates[i].id;
    m.device = device_;
    if (artifacts[i]) {
      m.code = hash_bytes(artifacts[i]->code.empty() ? artifacts[i]->source : artifacts[i]->code);
      m.compile_seconds = fact(*artifacts[i], "compile_seconds");
      m.median = expected(candidates[i], *artifacts[i]) * compiler_factor(*artifacts[i]);
    } else if (artifacts[i].error().cls == ErrorClass::kEnvironment) {
      return tl::make_unexpected(artifacts[i].error());  // without a compiler there is nothing to store
    } else {
      m.status = record::Status::kCompileFailed;
      m.failure = artifacts[i].error().message;
    }
  }
  return out;
}

TuneOptions ranking_options(const TuneOptions& given, const target::Target& target, int64_t finalists) {
  TuneOptions o = given;
  o.trials = 0;
  o.trials_per_task = o.round_size = finalists;
  o.cost_model = "prior";
  o.statement_branch = o.dataflow_branch = true;
  if (o.strategy == Strategy::kMoaPruner) o.strategy = Strategy::kPruner;
  o.explore = 0;
  o.settings = ranking_settings_for(target);
  o.population = kRankedPopulation;
  o.generations = kRankedGenerations;
  return o;
}

double compiler_factor(const codegen::Artifact& artifact) {
  constexpr double kWaits = 2, kNoBudgets = 1.25;
  double factor = 1 + fact(artifact, "spill_bytes") / (4 * std::max(fact(artifact, "registers"), 1.0));
  if (fact(artifact, "serialized_products") + fact(artifact, "injected_waits") > 0) factor *= kWaits;
  if (fact(artifact, "ignored_register_budgets") > 0) factor *= kNoBudgets;
  return factor;
}

}  // namespace tcc::search
