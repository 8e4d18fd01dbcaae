// Samples for training: features, labels and the task that they belong to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tcc/nn/model.h"

namespace tcc::nn {

// The features of one sample, row after row; an input that no network of the run reads may be empty.
struct SampleRows {
  std::span<const float> statements, sequences, dataflow, hardware;
};

class Samples;

// What a trainer draws batches from: in memory, or read as needed. gather() is deterministic.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // Replaces the contents of `out` by the samples `indices`, in their order. out has the dataset's widths (empty_like).
  virtual void gather(std::span<const int64_t> indices, Samples& out) const = 0;
  virtual Samples empty_like() const = 0;
};

// Samples in memory. Labels: min latency of the task / latency of the sample, in (0, 1], 0 for a failed one; one label
// a head (MTL-TLP), NaN where a platform has no measurement of the sample.
class Samples : public Dataset {
 public:
  // The widths of `config`; rows of an input with width 0 are dropped.
  explicit Samples(const Config& config);
  // Each span has a multiple of its width, labels one value a head; no labels: each is absent, as for prediction.
  void add(const SampleRows& rows, std::span<const float> labels, uint64_t task);
  void clear();

  int64_t size() const override { return static_cast<int64_t>(tasks_.size()); }
  void gather(std::span<const int64_t> indices, Samples& out) const override;
  Samples empty_like() const override;
  Batch batch() const;
  SampleRows rows(int64_t sample) const;
  int64_t heads() const { return heads_; }
  std::span<const float> labels() const { return labels_; }  // size x heads
  std::span<float> labels() { return labels_; }
  std::span<const uint64_t> tasks() const { return tasks_; }

 private:
  struct Input {
    int64_t width = 0;
    std::vector<float> rows;
    std::vector<int64_t> offsets{0};
    void add(std::span<const float> values);
    std::span<const float> of(int64_t sample) const;
  };
  Input statements_, sequences_, dataflow_, hardware_;
  int64_t heads_ = 1;
  std::vector<float> labels_;
  std::vector<uint64_t> tasks_;
};

// Per column 1 / largest magnitude, 1 where a column is 0 throughout: TenSet's and Pruner's scaling of inputs.
struct InputScale {
  std::vector<float> statements, sequences, dataflow;
};
InputScale input_scale(const Dataset& data);

}  // namespace tcc::nn
