// What answers the trials of a comparison of strategies.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench.h"
#include "search_curve.h"
#include "strategies.h"
#include "tcc/data/pool.h"
#include "tcc/measure/measurement.h"
#include "tcc/support/result.h"

namespace tcc::benchmarks {

class Mode {
 public:
  virtual ~Mode() = default;
  virtual std::string name() const = 0;
  virtual std::vector<std::string> sets() const = 0;  // of operators, or networks
  virtual std::string unit() const = 0;               // of a curve's values, of which less is better
  virtual std::string speed() const = 0;              // of their reciprocals
  virtual bool offers(const Method&) const { return true; }
  // Text of everything that a curve depends on beside its set, method and seed.
  virtual Result<std::string> settings(const std::string& set, const Method& method) = 0;
  virtual Result<Curve> run(const std::string& set, const Method& method, uint64_t seed) = 0;
};
// Errors: no mode has this name; the pools are missing.
Result<std::unique_ptr<Mode>> make_mode(const std::string& name);

// Measures the default spaces of the twelve operators whole, on one thread of this machine, into the tables' file. What
// it has already is not measured again; stops where --budget is spent.
Result<void> measure_tables(std::vector<Row>& rows);

// Answers from a table of programs. A program that is not in it is rejected, and counted.
class TableMeasurer : public measure::Measurer {
 public:
  // The programs that the group's traces give, by their nests.
  static Result<TableMeasurer> create(const data::Group& group);

  measure::MeasurerTraits traits() const override { return {.kind = record::Kind::kMeasured, .at_once = 64}; }
  Result<std::shared_ptr<const measure::MeasureTask>> prepare(const ir::Kernel&, const target::Target&) override {
    return std::shared_ptr<const measure::MeasureTask>();
  }
  Result<std::vector<measure::Measurement>> measure(std::span<const measure::Candidate> candidates) override;
  int64_t unknown() const { return unknown_; }
  int64_t programs() const { return std::ssize(times_); }

 private:
  struct Known {
    record::Status status = record::Status::kOk;
    double seconds = 0;
  };
  std::map<uint64_t, Known> times_;  // by the hash of the nest
  int64_t unknown_ = 0;
};

}  // namespace tcc::benchmarks
