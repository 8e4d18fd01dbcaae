// What a tuning run has reached by when: the time of all kernels over the trials spent.
#pragma once

#include <string>
#include <vector>

#include "tcc/driver/tune.h"

namespace tcc::cli {

class ValueCurve {
 public:
  struct Point {
    int64_t trials = 0;
    double elapsed = 0;
    double seconds = 0;  // sum over the tasks, each times its weight
  };
  explicit ValueCurve(std::vector<int64_t> weights) : weights_(std::move(weights)), best_(weights_.size(), 0.0) {}

  void add(const search::Progress& progress);
  // What the report says at the end: finals take times anew.
  void end(double seconds, double elapsed);
  // From the moment on when every task has a valid program; only points that are better than those before.
  const std::vector<Point>& points() const { return points_; }
  // Some lines for people, and what the last quarter of the run still gained; "" where there is nothing to tell.
  std::string text() const;

 private:
  std::vector<int64_t> weights_;
  std::vector<double> best_;
  std::vector<Point> points_;
  int64_t trials_ = 0;
};

}  // namespace tcc::cli
