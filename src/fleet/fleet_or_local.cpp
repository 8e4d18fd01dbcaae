#include <map>

#include "tcc/fleet/measurer.h"

namespace tcc::fleet {

class FleetOrLocal::State {
 public:
  State(std::unique_ptr<FleetMeasurer> fleet, std::function<Result<measure::Measurer*>()> open_local,
        std::function<void(const std::string&)> note)
      : fleet(std::move(fleet)), open_local_(std::move(open_local)), note_(std::move(note)) {}

  // This machine measures from now on. The error of the fleet is what the user reads where it cannot.
  Result<void> go_local(const Error& lost) {
    if (lost.cls != ErrorClass::kEnvironment) return tl::make_unexpected(lost);
    Result<measure::Measurer*> opened = open_local_();
    if (!opened) {
      Error error = lost;
      error.notes.push_back("this machine cannot measure instead: " + opened.error().message);
      return tl::make_unexpected(std::move(error));
    }
    local = *opened;
    if (note_) note_(lost.message + "; going on on this machine");
    return {};
  }

  // The same candidate for this machine, with inputs and references of its own.
  Result<measure::Candidate> here(const measure::Candidate& candidate, const target::Target& target) {
    auto& prepared = prepared_[ir::hash_kernel(candidate.naive)];
    if (prepared == nullptr) {
      TCC_TRY(prepared, local->prepare(candidate.naive, target));
    }
    measure::Candidate out = candidate;
    out.task = prepared.get();
    return out;
  }

  const std::unique_ptr<FleetMeasurer> fleet;
  measure::Measurer* local = nullptr;  // nullptr: the fleet measures

 private:
  const std::function<Result<measure::Measurer*>()> open_local_;
  const std::function<void(const std::string&)> note_;
  std::map<uint64_t, std::shared_ptr<const measure::MeasureTask>> prepared_;
};

FleetOrLocal::FleetOrLocal(std::unique_ptr<FleetMeasurer> fleet, std::function<Result<measure::Measurer*>()> open_local,
                           std::function<void(const std::string&)> note)
    : state_(std::make_unique<State>(std::move(fleet), std::move(open_local), std::move(note))) {}
FleetOrLocal::~FleetOrLocal() = default;

measure::MeasurerTraits FleetOrLocal::traits() const {
  return state_->local == nullptr ? state_->fleet->traits() : state_->local->traits();
}

Result<std::shared_ptr<const measure::MeasureTask>> FleetOrLocal::prepare(const ir::Kernel&, const target::Target&) {
  return nullptr;
}

Result<std::vector<measure::Measurement>> FleetOrLocal::measure(std::span<const measure::Candidate> candidates) {
  if (state_->local == nullptr) {
    Result<std::vector<measure::Measurement>> measured = state_->fleet->measure(candidates);
    if (measured) return measured;
    TCC_TRY_VOID(state_->go_local(measured.error()));
  }
  std::vector<measure::Candidate> here;
  for (const measure::Candidate& c : candidates) {
    TCC_TRY(measure::Candidate one, state_->here(c, state_->fleet->target()));
    here.push_back(std::move(one));
  }
  return state_->local->measure(here);
}

Result<measure::PairedComparison> FleetOrLocal::compare(const measure::Candidate& a, const measure::Candidate& b,
                                                        measure::PairAim aim) {
  if (state_->local == nullptr) {
    Result<measure::PairedComparison> compared = state_->fleet->compare(a, b, aim);
    if (compared) return compared;
    TCC_TRY_VOID(state_->go_local(compared.error()));
  }
  TCC_TRY(const measure::Candidate here_a, state_->here(a, state_->fleet->target()));
  TCC_TRY(const measure::Candidate here_b, state_->here(b, state_->fleet->target()));
  return state_->local->compare(here_a, here_b, aim);
}

std::vector<std::string> FleetOrLocal::notes() const {
  std::vector<std::string> out = state_->fleet->notes();
  if (state_->local != nullptr) {
    out.emplace_back("the fleet was lost: the rest was measured on this machine");
    for (std::string& text : state_->local->notes()) out.push_back(std::move(text));
  }
  return out;
}

}  // namespace tcc::fleet
