#include <algorithm>
#include <set>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/output.h"
#include "cli/svg_curve.h"
#include "cli/text_table.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/cost_models.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

const std::vector<std::string> kModelActions = {"train", "eval", "adapt", "distill", "info"};

struct ModelCommandArguments {
  Common common;
  std::string action, output, curve, state;
  std::vector<std::string> files;
  std::string network = "mamba", form = "tcc", sampler = "random", optimizer = "adam";
  int64_t epochs = 0, batch = 0, threads = 0;
  double rate = 0, share = 1, held_out = 0;
  uint64_t seed = 1;
};

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const cost::NetworkKind& kind : cost::network_kinds()) names.emplace_back(kind.name);
  return names;
}

void declare(Options& options, ModelCommandArguments& a) {
  options.option("ACTION", a.action, "train, eval, adapt, distill or info").words(kModelActions).required();
  options
      .list(
          "FILES", a.files,
          "train: pools. eval, adapt: a checkpoint and pools. distill: pools of one platform each, the target's last. "
          "info: checkpoints")
      .required();
  options.option("-o,--output", a.output, "The checkpoint to write").value("FILE");
  options.option("--network", a.network, "What to train").words(network_names()).show_default();
  options
      .option("--form", a.form, "train, distill: what it reads of a program; paper: the shapes of the network's paper")
      .words({cost::form_names().begin(), cost::form_names().end()})
      .show_default();
  options.option("--epochs", a.epochs, "Passes through the data [50; distill: 100 over all stages; adapt: 10]")
      .positive();
  options.option("--batch", a.batch, "Programs of a batch [as the network's paper, less for small pools]").positive();
  options.option("--rate", a.rate, "Learning rate [7e-4]").positive();
  options.option("--optimizer", a.optimizer, "train, adapt, distill: adam, or sgd with momentum 0.9")
      .one_of({"adam", "sgd"})
      .show_default();
  options.option("--held-out", a.held_out, "train: judge on this share of the tasks, which are not learned from [0]")
      .range(0, 0.9)
      .value("SHARE");
  options.option("--share", a.share, "Learn from this share of the programs; --sampler chooses them").range(0.001, 1);
  options.option("--sampler", a.sampler, "rdu, random, alt or balto")
      .words({cost::sampler_names().begin(), cost::sampler_names().end()})
      .show_default();
  options.option("--seed", a.seed, "Of every random choice").show_default();
  options
      .option("--state", a.state,
              "train, adapt: keep the state of the training here; an interrupted one goes on from it")
      .value("FILE");
  options.option("--curve", a.curve, "Draw loss and validation of each epoch").value("FILE.svg");
  options.option("--threads", a.threads, "Threads that compute [all]").positive();
}

Result<data::Pool> read_pools(std::span<const std::string> files) {
  data::Pool all;
  for (const std::string& file : files) {
    bool cut_off = false;
    TCC_TRY(const data::Pool pool, data::read_pool(file, &cut_off));
    if (cut_off) print_warning(fmt::format("{}: the end was cut off and is left out", file));
    for (const data::Group& g : pool.groups) all.add(g);
  }
  return all;
}

// Prints one line an epoch to stderr, or with --json an event to stdout.
class TrainingView {
 public:
  explicit TrainingView(const Common& common) : common_(common) {}
  void show(const nn::Progress& p) const {
    if (common_.json) {
      print_json_line(Json{{"event", "epoch"},
                           {"epoch", p.last.epoch},
                           {"epochs", p.epochs},
                           {"loss", p.last.loss},
                           {"validation", p.last.validation},
                           {"best", p.best},
                           {"seconds", p.seconds},
                           {"seconds_left", p.seconds_left}});
      return;
    }
    remark(common_.quiet,
           fmt::format("epoch {}/{}: loss {:.4g}, validation {:.4g}, best {:.4g} of epoch {}, {} left", p.last.epoch,
                       p.epochs, p.last.loss, p.last.validation, p.best, p.best_epoch, format_elapsed(p.seconds_left)));
  }

 private:
  const Common& common_;
};

Json judgement_json(const driver::Judgement& j) {
  Json json = TCC_JSON(j, top1, top5, pairs);
  json["tasks"] = Json::array();
  for (const driver::Judgement::Group& g : j.groups)
    json["tasks"].push_back(TCC_JSON(g, workload, platform, top1, top5, programs));
  return json;
}

std::string judgement_text(const driver::Judgement& j, const std::string& name, bool tasks) {
  std::string text =
      fmt::format("{}: top-1 {:.4f}, top-5 {:.4f}, pairs in order {:.4f}\n", name, j.top1, j.top5, j.pairs);
  if (!tasks) return text;
  std::vector<std::vector<std::string>> rows = {{"task", "platform", "programs", "top-1", "top-5"}};
  for (const driver::Judgement::Group& g : j.groups)
    rows.push_back({g.workload, g.platform, std::to_string(g.programs), fmt::format("{:.3f}", g.top1),
                    fmt::format("{:.3f}", g.top5)});
  return format_table(rows, 2) + text;
}

driver::Judgement judge_network(const nn::Model& model, const driver::PoolFeatures& features, ThreadPool* pool) {
  nn::Workspace workspace;
  return driver::judge(features, [&](const driver::PoolFeatures::Group& group) {
    return driver::score_group(model, group, workspace, pool);
  });
}

// What the target's prior makes of the same programs: the model to beat.
driver::Judgement judge_prior(const data::Pool& pool, const driver::PoolFeatures& features) {
  const target::Target& target = pool.groups[0].platform.target;
  const auto prior = backend::backend_of(target).prior(target);
  return driver::judge(features,
                       [&](const driver::PoolFeatures::Group& group) { return driver::score_group(*prior, group); });
}

Result<void> write_curve(const ModelCommandArguments& a, const nn::TrainReport& report) {
  if (a.curve.empty()) return {};
  SvgCurve loss{"loss", {}}, validation{"validation", {}};
  for (const nn::EpochRecord& e : report.history) {
    loss.points.push_back({static_cast<double>(e.epoch), e.loss});
    validation.points.push_back({static_cast<double>(e.epoch), e.validation});
  }
  return write_file(a.curve, draw_curves(a.network + " on " + fmt::format("{}", fmt::join(a.files, ", ")), "epoch",
                                         "loss per program", {loss, validation}));
}

// What a stored network reads of the pool's programs.
Result<cost::NetworkInputs> inputs_of(const nn::Checkpoint& stored, const cost::NetworkKind& kind,
                                      const data::Pool& pool, const std::string& name) {
  return cost::inputs_of_checkpoint(stored, kind, *backend::backend_of(pool.groups[0].platform.target).trace_table,
                                    sanitize(name));
}

driver::TrainRequest request_of(const ModelCommandArguments& a, ThreadPool& pool, const TrainingView& view) {
  driver::TrainRequest request;
  request.network = a.network, request.seed = a.seed, request.share = a.share, request.state = a.state;
  if (a.epochs > 0) request.epochs = a.epochs;
  if (a.batch > 0) request.batch = a.batch;
  if (a.rate > 0) request.rate = a.rate;
  if (a.optimizer == "sgd") request.optimizer = nn::OptimizerKind::kSgd;
  request.pool = &pool;
  request.stop = &InterruptGuard::requested;
  request.progress = [&view](const nn::Progress& p) { view.show(p); };
  return request;
}

// The call that made a network, without what does not change it.
std::string command_of(const ModelCommandArguments& a) {
  std::string text = fmt::format("tcc model {} {}", a.action, fmt::join(a.files, " "));
  const auto option = [&](bool given, const char* name, const auto& value) {
    if (given) text += fmt::format(" {} {}", name, value);
  };
  option(a.action != "distill", "--network", a.network);
  option(a.form != "tcc", "--form", a.form);
  option(a.epochs > 0, "--epochs", a.epochs);
  option(a.batch > 0, "--batch", a.batch);
  option(a.rate > 0, "--rate", a.rate);
  option(a.optimizer != "adam", "--optimizer", a.optimizer);
  option(a.held_out > 0, "--held-out", a.held_out);
  option(a.share < 1, "--share", a.share);
  option(a.share < 1, "--sampler", a.sampler);
  option(a.seed != 1, "--seed", a.seed);
  return text;
}

std::string metrics_text(const driver::Judgement& j) {
  return fmt::format("top-1 {:.4f}, top-5 {:.4f}, pairs in order {:.4f}", j.top1, j.top5, j.pairs);
}

Result<int> finish(const ModelCommandArguments& a, const driver::TrainedNetwork& trained, const data::Pool& judged_on,
                   ThreadPool& pool) {
  TCC_TRY_VOID(write_curve(a, trained.report));
  if (trained.report.end == nn::TrainEnd::kInterrupted) {
    const char* nothing = a.action == "distill" ? "stopped; nothing was written: tcc model distill keeps no state"
                                                : "stopped; nothing was written, because no --state was given";
    remark(a.common.quiet, a.state.empty() ? nothing : "stopped; the same call goes on from " + a.state);
    return kStopped;
  }
  if (!trained.report.message.empty()) remark(a.common.quiet, trained.report.message);
  if (trained.failed_tasks > 0)
    print_warning(
        fmt::format("{}: every program failed, so nothing was learned from them; `tcc dataset stats` names them",
                    plural(trained.failed_tasks, "task")));
  nn::Card card = trained.card;
  // A network behaves as its file says only after it has been read back.
  TCC_TRY(const std::string bytes, nn::checkpoint_bytes(trained.model, card));
  TCC_TRY(const nn::Checkpoint stored, nn::parse_checkpoint(bytes, a.output));
  Json json = {{"checkpoint", a.output},
               {"samples", trained.samples},
               {"parameters", trained.model.num_parameters()},
               {"best_epoch", trained.report.best_epoch},
               {"best", trained.report.best}};
  std::string text = fmt::format("{}: {} parameters, trained on {} programs, epoch {} was best\n", a.output,
                                 trained.model.num_parameters(), trained.samples, trained.report.best_epoch);
  if (judged_on.entries() > 0) {
    TCC_TRY(const cost::NetworkInputs inputs, inputs_of(stored, *cost::find_network(a.network), judged_on, a.output));
    TCC_TRY(const driver::PoolFeatures features, driver::extract_pool(judged_on, inputs.tables, &pool));
    const driver::Judgement network = judge_network(stored.model, features, &pool);
    const driver::Judgement prior = judge_prior(judged_on, features);
    card.text += fmt::format("; held out {} of the tasks, drawn by seed {}: {}; the target's prior: {}", a.held_out,
                             a.seed, metrics_text(network), metrics_text(prior));
    json["held_out"] = judgement_json(network), json["held_out_prior"] = judgement_json(prior);
    text += judgement_text(network, "held out", false) + judgement_text(prior, "held out, the target's prior", false);
  }
  card.text += "; command: " + command_of(a);
  TCC_TRY_VOID(nn::save_checkpoint(a.output, trained.model, card));
  return a.common.json ? print_json_line(json) : print(text);
}

Result<void> check_output(const ModelCommandArguments& a) {
  if (!a.output.empty()) return {};
  return make_error(ErrorClass::kUsage, fmt::format("tcc model {}: expected a file for the checkpoint", a.action),
                    "name it with -o FILE");
}

Result<int> train(const ModelCommandArguments& a, ThreadPool& pool, const TrainingView& view) {
  TCC_TRY_VOID(check_output(a));
  TCC_TRY(data::Pool all, read_pools(a.files));
  data::Split split{std::move(all), {}};
  if (a.held_out > 0) split = data::split_by_task(split.train, a.held_out, a.seed);
  driver::TrainRequest request = request_of(a, pool, view);
  TCC_TRY(request.sampler, cost::find_sampler(a.sampler));
  TCC_TRY(request.form, cost::find_form(a.form));
  TCC_TRY(const driver::TrainedNetwork trained, driver::train_network(split.train, request));
  return finish(a, trained, split.held_out, pool);
}

// Goes on from a checkpoint: 10 epochs over all weights, as the released PaCM fine-tunes; by Adam, where that uses SGD.
Result<int> adapt(const ModelCommandArguments& a, ThreadPool& pool, const TrainingView& view) {
  constexpr int64_t kEpochs = 10;
  TCC_TRY_VOID(check_output(a));
  if (a.files.size() < 2)
    return make_error(ErrorClass::kUsage, "tcc model adapt: expected a checkpoint and pools, found one file",
                      "write `tcc model adapt CHECKPOINT POOL... -o FILE`");
  TCC_TRY(const data::Pool data, read_pools(std::span(a.files).subspan(1)));
  driver::TrainRequest request = request_of(a, pool, view);
  TCC_TRY(request.sampler, cost::find_sampler(a.sampler));
  request.start = a.files[0];
  if (!request.epochs) request.epochs = kEpochs;
  TCC_TRY(const driver::TrainedNetwork trained, driver::train_network(data, request));
  return finish(a, trained, {}, pool);
}

Result<int> distill(const ModelCommandArguments& a, ThreadPool& pool, const TrainingView& view) {
  TCC_TRY_VOID(check_output(a));
  std::vector<data::Pool> pools;
  for (const std::string& file : a.files) {
    TCC_TRY(data::Pool one, read_pools({&file, 1}));
    pools.push_back(std::move(one));
  }
  driver::TrainRequest request = request_of(a, pool, view);
  TCC_TRY(request.sampler, cost::find_sampler(a.sampler));
  TCC_TRY(request.form, cost::find_form(a.form));
  TCC_TRY(const driver::TrainedNetwork trained, driver::distill_network(pools, request));
  return finish(a, trained, {}, pool);
}

Result<int> eval(const ModelCommandArguments& a, ThreadPool& pool) {
  if (a.files.size() < 2)
    return make_error(ErrorClass::kUsage, "tcc model eval: expected a checkpoint and pools, found one file",
                      "write `tcc model eval CHECKPOINT POOL...`");
  TCC_TRY(const nn::Checkpoint stored, nn::load_checkpoint(a.files[0]));
  TCC_TRY(const data::Pool data, read_pools(std::span(a.files).subspan(1)));
  TCC_TRY_VOID(data::check_programs(data));
  TCC_TRY(const cost::NetworkKind* kind, cost::network_of_checkpoint(a.files[0]));
  TCC_TRY(const cost::NetworkInputs inputs, inputs_of(stored, *kind, data, a.files[0]));
  TCC_TRY(const driver::PoolFeatures features, driver::extract_pool(data, inputs.tables, &pool));
  if (features.skipped > 0)
    print_warning(fmt::format("{} of the pool's programs are left out: this version of tcc does not make them",
                              features.skipped));
  std::set<std::string> platforms;
  for (const data::Group& g : data.groups) platforms.insert(g.platform.name);
  for (const std::string& platform : platforms)
    if (const std::string note = cost::platform_note(stored.card, {&platform, 1}, sanitize(a.files[0])); !note.empty())
      remark(a.common.quiet, "note: " + note);
  const driver::Judgement network = judge_network(stored.model, features, &pool), prior = judge_prior(data, features);
  if (a.common.json) return print_json(Json{{"network", judgement_json(network)}, {"prior", judgement_json(prior)}});
  return print(judgement_text(network, a.files[0], true) + judgement_text(prior, "the target's prior", false));
}

Result<int> info(const ModelCommandArguments& a) {
  Json all = Json::array();
  std::string text;
  for (const std::string& file : a.files) {
    TCC_TRY(const nn::Checkpoint c, nn::load_checkpoint(file));
    const std::string_view network = architecture_name(c.model.config().architecture);
    all.push_back({{"file", file},
                   {"network", network},
                   {"parameters", c.model.num_parameters()},
                   {"storage", c.half ? "f16" : "f32"},
                   {"features", c.card.features},
                   {"platform", c.card.platform},
                   {"card", c.card.text},
                   {"hash", fmt::format("{:016x}", c.hash)}});
    text += fmt::format("{}: {}, {} parameters as {}\n  features  {}\n  platform  {}\n  {}\n", file, network,
                        c.model.num_parameters(), c.half ? "f16" : "f32", sanitize(c.card.features),
                        sanitize(c.card.platform), sanitize(c.card.text));
  }
  return a.common.json ? print_json(all) : print(text);
}

Result<int> run_model(const ModelCommandArguments& a) {
  if (!a.state.empty() && a.action != "train" && a.action != "adapt")
    return make_error(ErrorClass::kUsage,
                      fmt::format("--state: expected with train or adapt, found with {}", sanitize(a.action)),
                      "leave it out: this action keeps no state and begins anew");
  if (a.action == "info") return info(a);
  ThreadPool pool(static_cast<int>(a.threads > 0 ? a.threads : target::host_target().cpu.threads));
  const TrainingView view(a.common);
  InterruptGuard interrupts;
  if (a.action == "train") return train(a, pool, view);
  if (a.action == "eval") return eval(a, pool);
  if (a.action == "adapt") return adapt(a, pool, view);
  if (a.action == "distill") return distill(a, pool, view);
  return make_error(ErrorClass::kUsage, fmt::format("expected an action of tcc model, found '{}'", sanitize(a.action)),
                    suggest(a.action, kModelActions));
}

}  // namespace

Command model_command() {
  return make_command("model", "Train and judge the networks that rank programs",
                      "  tcc model train pool.tccpool --network mamba --held-out 0.2 -o mine.tccnet --curve loss.svg\n"
                      "  tcc model eval mine.tccnet other.tccpool\n"
                      "  tcc model adapt mine.tccnet here.tccpool --share 0.1 --sampler rdu -o adapted.tccnet\n"
                      "  tcc model distill a.tccpool b.tccpool target.tccpool --share 0.1 --sampler rdu -o d.tccnet\n"
                      "  tcc model info mine.tccnet\n",
                      declare, run_model);
}

}  // namespace tcc::cli
