#include "tcc/cost/network_model.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "tcc/cost/gpu_model.h"
#include "tcc/cost/shipped_checkpoints.h"
#include "tcc/features/features.h"
#include "tcc/nn/continual.h"
#include "tcc/support/check.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::cost {
namespace {

constexpr NetworkKind kKinds[] = {
#define TCC_X(name, architecture, heads, summary) {name, nn::Architecture::architecture, heads, summary},
    TCC_NETWORKS(TCC_X)
#undef TCC_X
};

constexpr std::string_view kForms[] = {
#define TCC_X(name, text) text,
    TCC_FORMS(TCC_X)
#undef TCC_X
};

constexpr uint64_t kSeed = 1;
constexpr int64_t kFirstTraining = 16;    // records
constexpr int64_t kFirstAdaptation = 32;  // the same where the network begins with a checkpoint
// Growth of their number from one training to the next; where there is a checkpoint, less is left to learn.
constexpr double kGrowth = 1.4, kAdaptationGrowth = 2;
constexpr int64_t kMaxSteps = 200;  // batches of an update
constexpr int64_t kOnlineBatch = 128;
// Of a program without tables. Scores of networks are far smaller.
constexpr float kUnknown = -1e6f;

// Batches of an update that begins with a checkpoint. Adam's steps have one length however little the labels differ.
// Where all programs are about as fast, many steps would learn the noise of the measurements.
int64_t adaptation_steps(std::span<const float> labels) {
  constexpr double kPerDeviation = 400, kMinBatches = 20, kMaxBatches = 100;
  double n = 0, sum = 0, squares = 0;
  for (float label : labels)
    if (label > 0) n += 1, sum += label, squares += static_cast<double>(label) * label;
  if (n == 0) return static_cast<int64_t>(kMinBatches);
  const double mean = sum / n, deviation = std::sqrt(std::max(squares / n - mean * mean, 0.0));
  return static_cast<int64_t>(std::clamp(kPerDeviation * deviation, kMinBatches, kMaxBatches));
}

int64_t next_training(int64_t after, double growth) {
  const auto grown = static_cast<int64_t>(static_cast<double>(after) * growth);
  return std::max(after + kFirstTraining, (grown + kFirstTraining - 1) / kFirstTraining * kFirstTraining);
}

// The programs of a batch as the network reads them; `at`: their numbers in the batch.
struct Assembled {
  std::vector<float> statements, sequences, dataflow, hardware;
  std::vector<int64_t> statement_offsets{0}, sequence_offsets{0}, dataflow_offsets{0};
  std::vector<size_t> at;

  static void append(std::vector<float>& values, std::vector<int64_t>& offsets, std::span<const float> rows,
                     int64_t width) {
    values.insert(values.end(), rows.begin(), rows.end());
    offsets.push_back(offsets.back() + (width > 0 ? std::ssize(rows) / width : 0));
  }
  void add(const nn::SampleRows& rows, const nn::Config& c) {
    append(statements, statement_offsets, rows.statements, c.statement_width);
    append(sequences, sequence_offsets, rows.sequences, c.sequence_width);
    append(dataflow, dataflow_offsets, rows.dataflow, c.dataflow_width);
    hardware.insert(hardware.end(), rows.hardware.begin(), rows.hardware.end());
  }
  nn::Batch batch(const nn::Config& c) const {
    nn::Batch b{.size = std::ssize(at)};
    b.statements = {statements.data(), statement_offsets.data(), c.statement_width};
    b.sequences = {sequences.data(), sequence_offsets.data(), c.sequence_width};
    b.dataflow = {dataflow.data(), dataflow_offsets.data(), c.dataflow_width};
    b.hardware = hardware.empty() ? nullptr : hardware.data();
    b.hardware_width = c.hardware_width;
    return b;
  }
};

// Whether networks of `architecture` read statements; the others read the steps of a trace.
bool reads_statements(nn::Architecture architecture) {
  return architecture == nn::Architecture::kMlp || architecture == nn::Architecture::kPacm;
}

// Errors: the checkpoint was trained on other features, or reads rows of other widths than those features have.
Result<void> require_inputs(const nn::Checkpoint& checkpoint, const NetworkInputs& inputs, const std::string& name) {
  TCC_TRY_VOID(nn::require_features(checkpoint, inputs.features, name));
  const nn::Config &found = checkpoint.model.config(), &expected = inputs.config;
  const bool statements = reads_statements(found.architecture);
  const auto widths = [&](const nn::Config& c) {
    return statements ? std::array{c.statement_width, c.dataflow_width}
                      : std::array{c.sequence_width, c.hardware_width};
  };
  if (widths(found) == widths(expected)) return {};
  return input_error(
      "{}: the network reads rows of {} columns ({}), but the features that its card names have {}: the file is "
      "damaged; train it again",
      name, fmt::join(widths(found), " and "), statements ? "statements and dataflow" : "steps and hardware",
      fmt::join(widths(expected), " and "));
}

class NetworkModel : public CostModel {
 public:
  NetworkModel(const ModelSetup& setup, NetworkInputs inputs, nn::Model model, uint64_t checkpoint,
               std::unique_ptr<CostModel> prior)
      : setup_(setup),
        inputs_(std::move(inputs)),
        model_(std::move(model)),
        checkpoint_(checkpoint),
        prior_(std::move(prior)),
        momentum_(model_),
        next_(checkpoint_ != 0 ? kFirstAdaptation : kFirstTraining) {}

  const features::Schema& schema() const override { return prior_->schema(); }
  std::span<const features::Table* const> tables() const override { return inputs_.tables; }
  uint64_t checkpoint() const override {
    if (checkpoint_ == 0) return 0;
    return combine_hash(checkpoint_, static_cast<uint64_t>(setup_.adaptation));
  }
  bool wants_all_samples() const override { return true; }
  bool trained() const override { return checkpoint_ != 0 || trained_on_ > 0; }
  double expected_seconds(const features::Row& row) const override { return prior_->expected_seconds(row); }
  uint64_t family(const features::Row& row) const override { return prior_->family(row); }

  void predict(const features::Batch& programs, std::span<float> scores) const override {
    if (!trained()) return prior_->predict(programs, scores);
    Assembled input;
    std::vector<float> memory;
    for (size_t i = 0; i < programs.size(); ++i) {
      const nn::SampleRows rows = rows_of(programs, i, memory);
      scores[i] = kUnknown;
      if (rows.statements.empty() && rows.sequences.empty()) continue;
      input.add(seen(rows), model_.config());
      input.at.push_back(i);
    }
    if (input.at.empty()) return;
    std::vector<float> found(input.at.size());
    std::unique_ptr<nn::Workspace> workspace = borrow();
    model_.predict(input.batch(model_.config()), found, *workspace, setup_.pool);
    give_back(std::move(workspace));
    for (size_t i = 0; i < found.size(); ++i) scores[input.at[i]] = found[i];
  }

  std::string_view trouble() const override { return trouble_; }

  void update(const Samples& samples) override {
    prior_->update(samples);
    if (setup_.adaptation == Adaptation::kNone && checkpoint_ != 0) return;
    std::vector<size_t> order;
    for (size_t i = 0; i < samples.records.size(); ++i)
      if (samples.records[i] > 0 && samples.programs[i] != nullptr && !samples.programs[i]->tables.empty())
        order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t x, size_t y) { return samples.records[x] < samples.records[y]; });
    for (int64_t n = next_; n <= std::ssize(order); n = next_) {
      train(samples, std::span(order).first(static_cast<size_t>(n)));
      trained_on_ = n;
      next_ = next_training(n, checkpoint_ != 0 ? kAdaptationGrowth : kGrowth);
    }
  }

 private:
  // Without those of the branches that are left out.
  nn::SampleRows seen(nn::SampleRows rows) const {
    if (!setup_.statement_branch) rows.statements = {};
    if (!setup_.dataflow_branch) rows.dataflow = {};
    return rows;
  }
  nn::SampleRows rows_of(const features::Batch& programs, size_t i, std::vector<float>& memory) const {
    std::vector<std::span<const float>> tables;
    for (size_t k = 0; k < inputs_.tables.size(); ++k) tables.push_back(programs.table(i, k));
    return network_rows(model_.config(), programs[i], tables, memory);
  }

  // Labels are relative to the fastest program of the task among these records: what came later is not known yet.
  nn::Samples gather(const Samples& samples, std::span<const size_t> order) const {
    std::map<uint64_t, double> best;
    for (size_t i : order)
      if (const double s = samples.seconds[i]; s > 0) {
        double& least = best.try_emplace(samples.tasks[i], s).first->second;
        least = std::min(least, s);
      }
    nn::Samples out(model_.config());
    std::vector<float> labels(static_cast<size_t>(model_.config().heads), std::numeric_limits<float>::quiet_NaN());
    std::vector<float> memory;
    for (size_t i : order) {
      const double s = samples.seconds[i];
      labels[0] = s > 0 ? static_cast<float>(best.at(samples.tasks[i]) / s) : 0.f;
      std::vector<std::span<const float>> tables;
      for (const std::vector<float>& t : samples.programs[i]->tables) tables.push_back(t);
      out.add(seen(network_rows(model_.config(), samples.programs[i]->row.values, tables, memory)), labels,
              samples.tasks[i]);
    }
    return out;
  }

  void train(const Samples& samples, std::span<const size_t> order) {
    const nn::Samples data = gather(samples, order);
    if (checkpoint_ == 0) {
      auto fresh = nn::Model::create(model_.config(), kSeed, model_.level());
      TCC_CHECK(fresh.has_value(), "the configuration was accepted before");
      model_ = std::move(*fresh);
      fit_input_scale(model_, data);
    } else if (setup_.adaptation == Adaptation::kMoa) {
      momentum_.begin(model_);
    }
    nn::TrainOptions options = paper_options(model_.config().architecture);
    options.batch = std::min(options.batch, kOnlineBatch);
    const int64_t steps = (data.size() + options.batch - 1) / options.batch;
    const int64_t most = checkpoint_ != 0 ? adaptation_steps(data.labels()) : kMaxSteps;
    options.epochs = std::clamp<int64_t>(most / steps, 1, options.epochs);
    auto trainer = nn::Trainer::create(model_, data, nullptr, options, setup_.pool);
    TCC_CHECK(trainer.has_value(), "samples come from this model's tables");
    const nn::TrainReport report = trainer->run();
    trouble_ = report.end == nn::TrainEnd::kDiverged ? report.message : "";
    if (checkpoint_ != 0 && setup_.adaptation == Adaptation::kMoa) momentum_.finish(model_);
  }

  std::unique_ptr<nn::Workspace> borrow() const {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<nn::Workspace>();
    std::unique_ptr<nn::Workspace> last = std::move(free_.back());
    free_.pop_back();
    return last;
  }
  void give_back(std::unique_ptr<nn::Workspace> workspace) const {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

  const ModelSetup setup_;
  const NetworkInputs inputs_;
  nn::Model model_;
  const uint64_t checkpoint_;
  const std::unique_ptr<CostModel> prior_;
  nn::MomentumAdapter momentum_;
  int64_t trained_on_ = 0, next_;
  std::string trouble_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<nn::Workspace>> free_;  // of threads that predict; guarded by mutex_
};

}  // namespace

std::span<const NetworkKind> network_kinds() {
  return kKinds;
}

const NetworkKind* find_network(std::string_view name) {
  for (const NetworkKind& kind : kKinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

Result<const NetworkKind*> network_of_checkpoint(const std::string& path) {
  TCC_TRY(const nn::Checkpoint stored, nn::load_checkpoint(path));
  nn::Architecture found = stored.model.config().architecture;
  if (found == nn::Architecture::kMambaAdapter) found = nn::Architecture::kMamba;
  const NetworkKind* best = nullptr;
  for (const NetworkKind& kind : kKinds) {
    if (kind.architecture != found) continue;
    const bool as_many = (kind.heads > 1) == (stored.model.config().heads > 1);
    if (best == nullptr || as_many) best = &kind;
  }
  if (best != nullptr) return best;
  return input_error("'{}': no cost model has the network '{}'", sanitize(path), architecture_name(found));
}

std::span<const std::string_view> form_names() {
  return kForms;
}

Result<Form> find_form(std::string_view name) {
  for (size_t i = 0; i < std::size(kForms); ++i)
    if (kForms[i] == name) return static_cast<Form>(i);
  const std::vector<std::string> known(std::begin(kForms), std::end(kForms));
  return make_error(ErrorClass::kUsage, fmt::format("expected a form, found '{}'", sanitize(std::string(name))),
                    suggest(std::string(name), known));
}

NetworkInputs network_inputs(const NetworkKind& kind, const features::Table& trace, Form form) {
  const bool paper = form == Form::kPaper, gpu = &trace == &features::kTraceGpu;
  const features::Table& statements = paper ? features::kStatementsTenSet : features::kStatements;
  const features::Table& dataflow = paper ? features::kDataflowPruner : features::kDataflow;
  const features::Table* steps = &trace;
  NetworkInputs inputs;
  nn::Config& c = inputs.config;
  c.architecture = kind.architecture;
  c.heads = kind.heads;
  const auto width = [](const features::Table& t) { return std::ssize(t.columns); };
  switch (kind.architecture) {
    case nn::Architecture::kMlp:
      inputs.tables = {&statements};
      break;
    case nn::Architecture::kPacm:
      inputs.tables = {&statements, &dataflow};
      break;
    case nn::Architecture::kTlp:
      if (paper) steps = gpu ? &features::kTraceTlpGpu : &features::kTraceTlpCpu;
      inputs.tables = {steps};
      break;
    case nn::Architecture::kMamba:
    case nn::Architecture::kMambaAdapter:
      if (paper) {
        // The machine is the last row of the table.
        steps = gpu ? &features::kTraceTclGpu : &features::kTraceTclCpu;
        inputs.tables = {steps};
      } else {
        inputs.tables = {steps, &features::kHardware};
        c.hardware_width = width(features::kHardware);
      }
      break;
  }
  c.statement_width = width(statements);
  c.sequence_width = width(*steps);
  c.dataflow_width = width(dataflow);
  if (!paper && inputs.tables[0] == &statements) {
    const features::Schema& row = gpu ? kLongestLaunch : features::kHotStatement;
    c.statement_width += std::ssize(row.columns);
    inputs.features = fmt::format("{} {:016x}", row.name, schema_hash(row));
  }
  for (const features::Table* t : inputs.tables)
    inputs.features += fmt::format("{}{} {:016x}", inputs.features.empty() ? "" : ", ", t->name, table_hash(*t));
  return inputs;
}

Result<NetworkInputs> inputs_of_checkpoint(const nn::Checkpoint& stored, const NetworkKind& kind,
                                           const features::Table& trace, const std::string& name) {
  NetworkInputs paper = network_inputs(kind, trace, Form::kPaper);
  NetworkInputs inputs = stored.card.features == paper.features ? std::move(paper) : network_inputs(kind, trace);
  TCC_TRY_VOID(require_inputs(stored, inputs, name));
  return inputs;
}

bool is_simulated(const nn::Card& card) {
  return card.platform.find(", simulated ") != std::string::npos;
}

std::string platform_note(const nn::Card& card, std::span<const std::string> here, const std::string& name) {
  const std::string known = "; " + card.platform + "; ";
  for (const std::string& one : here)
    if (known.find("; " + one + "; ") != std::string::npos) return {};
  return fmt::format(
      "{} learned on '{}', not on this platform, '{}': it may rank programs worse here; `tcc dataset "
      "collect` and `tcc model adapt` fit it",
      name, sanitize(card.platform), here.empty() ? "" : sanitize(here.front()));
}

nn::SampleRows network_rows(const nn::Config& config, std::span<const float> row,
                            std::span<const std::span<const float>> tables, std::vector<float>& memory) {
  const auto at = [&](size_t k) { return k < tables.size() ? tables[k] : std::span<const float>(); };
  const auto statements = [&]() -> std::span<const float> {
    const size_t width = features::kStatements.columns.size();
    if (config.statement_width == static_cast<int64_t>(width)) return at(0);
    TCC_CHECK(config.statement_width == static_cast<int64_t>(width + row.size()), "statements with a row of {} columns",
              row.size());
    memory.clear();
    for (size_t from = 0; from < at(0).size(); from += width) {
      const std::span<const float> one = at(0).subspan(from, width);
      memory.insert(memory.end(), one.begin(), one.end());
      memory.insert(memory.end(), row.begin(), row.end());
    }
    return memory;
  };
  switch (config.architecture) {
    case nn::Architecture::kMlp:
      return {.statements = statements()};
    case nn::Architecture::kPacm:
      return {.statements = statements(), .dataflow = at(1)};
    case nn::Architecture::kTlp:
      return {.sequences = at(0)};
    case nn::Architecture::kMamba:
    case nn::Architecture::kMambaAdapter:
      return {.sequences = at(0), .hardware = at(1)};
  }
  return {};
}

nn::TrainOptions paper_options(nn::Architecture architecture) {
  nn::TrainOptions options;
  options.batch = reads_statements(architecture) ? 512 : 1024;
  return options;
}

void fit_input_scale(nn::Model& model, const nn::Dataset& data) {
  const nn::InputScale scale = nn::input_scale(data);
  if (reads_statements(model.config().architecture)) model.set_input_scale(scale.statements, {}, scale.dataflow);
}

Result<std::unique_ptr<CostModel>> make_network_model(const NetworkKind& kind, const ModelSetup& setup,
                                                      std::unique_ptr<CostModel> prior) {
  const ShippedCheckpoint* shipped =
      setup.pretrained == kShipped ? find_shipped_checkpoint(kind.name, *setup.trace) : nullptr;
  if (setup.pretrained.empty() || (setup.pretrained == kShipped && shipped == nullptr)) {
    NetworkInputs fresh = network_inputs(kind, *setup.trace);
    TCC_TRY(nn::Model model, nn::Model::create(fresh.config, kSeed));
    return std::make_unique<NetworkModel>(setup, std::move(fresh), std::move(model), 0, std::move(prior));
  }
  TCC_TRY(nn::Checkpoint stored, shipped != nullptr ? nn::parse_checkpoint(shipped->bytes, "the shipped checkpoint")
                                                    : nn::load_checkpoint(setup.pretrained));
  TCC_TRY(NetworkInputs inputs, inputs_of_checkpoint(stored, kind, *setup.trace, sanitize(setup.pretrained)));
  const nn::Architecture found = stored.model.config().architecture;
  const bool adapter = found == nn::Architecture::kMambaAdapter && kind.architecture == nn::Architecture::kMamba;
  if (found != kind.architecture && !adapter)
    return make_error(ErrorClass::kInput,
                      fmt::format("'{}': expected a checkpoint of --cost-model {}, found one of a network '{}'",
                                  sanitize(setup.pretrained), kind.name, architecture_name(found)),
                      "name the model that it was trained as; `tcc model info FILE` says which");
  const uint64_t hash = std::max<uint64_t>(stored.hash, 1);
  return std::make_unique<NetworkModel>(setup, std::move(inputs), std::move(stored.model), hash, std::move(prior));
}

}  // namespace tcc::cost
