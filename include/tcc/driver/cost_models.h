// Training and judging cost models on pools of measured programs (tcc/data/pool.h): what `tcc model` does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tcc/cost/active_sampling.h"
#include "tcc/cost/network_model.h"
#include "tcc/data/pool.h"
#include "tcc/nn/checkpoint.h"
#include "tcc/nn/trainer.h"
#include "tcc/support/parallel.h"
#include "tcc/support/result.h"

namespace tcc::driver {

// The programs of a pool as models read them, group after group.
struct PoolFeatures {
  struct Group {
    std::string workload, platform;
    double weight = 1;
    uint64_t task = 0;  // hash, without the platform
    uint64_t platform_hash = 0;
    std::vector<double> seconds;  // of each program; 0: it failed
    std::vector<features::Sample> samples;
    double best_seconds() const;
  };
  std::vector<Group> groups;
  std::vector<const features::Table*> tables;  // of the samples
  const features::Schema* schema = nullptr;
  const features::Table* trace = nullptr;  // the steps of the target's schedules
  int64_t skipped = 0;                     // programs that this version of tcc does not make
  bool simulated = false;                  // all times are of simulated GPUs; otherwise none is
  int64_t programs() const;
  int64_t failed_groups() const;  // without a program that ran
};
// Makes each program again from its sketch and decisions, and extracts the row of the target's prior and the tables.
// Errors: a pool without a program, or without one that ran; targets of different kinds; simulated times beside
// measured ones.
Result<PoolFeatures> extract_pool(const data::Pool& pool, std::span<const features::Table* const> tables,
                                  ThreadPool* threads);

// The groups' programs as a network's samples; `heads`: each platform's labels go to a head of its own, the first
// platform named in `platforms` to head 0.
nn::Samples network_samples(const PoolFeatures& features, const nn::Config& config,
                            std::span<const uint64_t> platforms = {});

// How well a model ranks the programs of the groups.
struct Judgement {
  double top1 = 0, top5 = 0, pairs = 0;
  struct Group {
    std::string workload, platform;
    double top1 = 0, top5 = 0;
    int64_t programs = 0;
  };
  std::vector<Group> groups;
};
using Scorer = std::function<std::vector<float>(const PoolFeatures::Group&)>;
Judgement judge(const PoolFeatures& features, const Scorer& scorer);
// The network's scores of a group.
std::vector<float> score_group(const nn::Model& model, const PoolFeatures::Group& group, nn::Workspace& workspace,
                               ThreadPool* pool);
// The same of a model that a search uses, and the groups' programs as such models learn them; `features` outlives the
// samples.
std::vector<float> score_group(const cost::CostModel& model, const PoolFeatures::Group& group);
cost::Samples cost_samples(const PoolFeatures& features);

struct TrainRequest {
  std::string network = "mamba";  // of cost::network_kinds()
  // Of a fresh network; one that goes on from a checkpoint keeps its own.
  cost::Form form = cost::Form::kTcc;
  std::optional<int64_t> epochs, batch;
  std::optional<double> rate;
  nn::OptimizerKind optimizer = nn::OptimizerKind::kAdam;  // kSgd: with momentum 0.9
  // A head for each platform of the data, as MTL-TLP has, whatever the network; the first platform's head predicts.
  bool head_each_platform = false;
  uint64_t seed = 1;
  double validation = 0.1;  // share of the programs that choose the epoch
  // A share below 1: only so much of the pool is learned from, chosen by the sampler in ten steps, as if it were
  // measured then.
  double share = 1;
  cost::Sampler sampler = cost::Sampler::kRandom;
  std::optional<int64_t> probe_epochs;  // of the networks by which the sampler chooses; as `epochs`
  std::string start;                    // a checkpoint to go on from; "": a fresh network
  std::string state;                    // file of an interrupted training, which is resumed; "": none is kept
  ThreadPool* pool = nullptr;
  std::function<bool()> stop;  // may be empty
  std::function<void(const nn::Progress&)> progress;
};
struct TrainedNetwork {
  nn::Model model;
  nn::TrainReport report;
  nn::Card card;
  int64_t samples = 0;       // that it learned from
  int64_t failed_tasks = 0;  // of the data: no program of them ran, so they taught nothing
};
// Errors: an unknown network, a checkpoint of other features, one of a simulated GPU for measured times, nothing to
// learn from.
Result<TrainedNetwork> train_network(const data::Pool& pool, const TrainRequest& request);
// With the tables of the network (cost::network_inputs).
Result<TrainedNetwork> train_network(const PoolFeatures& features, const TrainRequest& request);

// TCL's continual distillation over the pools in their order; the last one is the target. Errors: as train_network();
// pools of different kinds of targets, or simulated times beside measured ones.
Result<TrainedNetwork> distill_network(std::span<const data::Pool> pools, const TrainRequest& request);
Result<TrainedNetwork> distill_network(std::span<const PoolFeatures* const> platforms, const TrainRequest& request);

}  // namespace tcc::driver
