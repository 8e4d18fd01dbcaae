// Cost models that are networks (tcc/nn): TenSet-MLP, TLP, MTL-TLP, PaCM and Mamba, which rank programs by tables of
// features. What a network reads, how it is trained, and its use in a search.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tcc/cost/cost_model.h"
#include "tcc/nn/checkpoint.h"
#include "tcc/nn/model.h"
#include "tcc/nn/trainer.h"

namespace tcc::cost {

// X(name, architecture, heads, summary)
// clang-format off
#define TCC_NETWORKS(X) \
  X("mlp", kMlp, 1, "TenSet-MLP on the statements of a program") \
  X("tlp", kTlp, 1, "TLP: attention over the steps of the schedule") \
  X("mtl-tlp", kTlp, 2, "TLP with a head for each platform of its training; the first one predicts") \
  X("pacm", kPacm, 1, "PaCM: the statements and the flow of data to the one with most arithmetic") \
  X("mamba", kMamba, 1, "TCL's Mamba network over the steps of the schedule and the machine")
// clang-format on
struct NetworkKind {
  std::string_view name;
  nn::Architecture architecture;
  int64_t heads;
  std::string_view summary;
};
std::span<const NetworkKind> network_kinds();
// The kind of the network in a file; of the kinds of one architecture the one with as many heads, one or several.
// Errors: a file that is not a checkpoint.
Result<const NetworkKind*> network_of_checkpoint(const std::string& path);
// nullptr: no network has this name.
const NetworkKind* find_network(std::string_view name);

// The shapes in which a network reads programs. X(Name, text)
//   tcc    our own tables (tcc/features/sample.h). Networks that read statements get the program's row behind each of
//          them, which the papers' networks do not have: what the row knows of the statement that counts (register
//          tiles, vectors, strides against the machine's) is not in the 164 features.
//   paper  those of the network's paper: 174 columns of a statement in TenSet's order, Pruner's pattern of data flow,
//          TLP's 25 x 22 (CPUs) and 40 x 20 (GPUs) raw integers, TCL's 26 x 22 and 41 x 20 with the machine as last
//          row.
// clang-format off
#define TCC_FORMS(X) X(Tcc, "tcc") X(Paper, "paper")
// clang-format on
enum class Form : uint8_t {
#define TCC_X(name, text) k##name,
  TCC_FORMS(TCC_X)
#undef TCC_X
};
std::span<const std::string_view> form_names();
Result<Form> find_form(std::string_view name);

// What a network of an architecture reads of programs: tables, and the configuration that fits them.
struct NetworkInputs {
  std::vector<const features::Table*> tables;
  nn::Config config;
  // Names and hashes of the tables and of the row's schema: what a checkpoint must have been trained on.
  std::string features;
};
// `trace`: the table of steps that the target's schedules have (backend::Backend::trace_table).
NetworkInputs network_inputs(const NetworkKind& kind, const features::Table& trace, Form form = Form::kTcc);
// The same in the form that a stored network was trained in. `name`: of its file. Errors: features of neither form,
// a network that reads rows of other widths than its features have.
Result<NetworkInputs> inputs_of_checkpoint(const nn::Checkpoint& stored, const NetworkKind& kind,
                                           const features::Table& trace, const std::string& name);

// Whether the network learned from a simulated GPU, whose times no device has: its card's platforms say so
// (target::platform_text).
bool is_simulated(const nn::Card& card);
// That the network learned on other platforms than this one, and what to do about it; "" where it learned here. `here`:
// the names of this platform. `name`: of the network's file.
std::string platform_note(const nn::Card& card, std::span<const std::string> here, const std::string& name);

// The row of a sample and its tables in the order of NetworkInputs::tables as the rows that the network reads. They are
// in the tables or in `memory`.
nn::SampleRows network_rows(const nn::Config& config, std::span<const float> row,
                            std::span<const std::span<const float>> tables, std::vector<float>& memory);

// As the network's paper trains it: LambdaRank, Adam 7e-4, weight decay 1e-6, gradient norm 0.5, 50 epochs, batches of
// 512 (TenSet-MLP, PaCM) or 1024 (TLP, Mamba).
nn::TrainOptions paper_options(nn::Architecture architecture);
// Factors for the inputs, by the largest magnitudes of the data. The papers scale the statements and data flow only;
// traces of tcc are logarithms, and their fidelity forms are raw.
void fit_input_scale(nn::Model& model, const nn::Dataset& data);

// The network as a cost model. Until it has a checkpoint or has been trained, `prior` ranks. Its state is a function of
// the checkpoint and of the records in their order: it is trained when their number passes 16, 32, 48, ... each time by
// about 40 % (with a checkpoint 32, 64, 128, ...), on those records alone, so a search that was interrupted goes on
// with the same bits.
// Errors: a file that is not a checkpoint, of another architecture, or of other features.
Result<std::unique_ptr<CostModel>> make_network_model(const NetworkKind& kind, const ModelSetup& setup,
                                                      std::unique_ptr<CostModel> prior);

}  // namespace tcc::cost
