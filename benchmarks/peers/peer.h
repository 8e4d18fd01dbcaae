// What the peer programs share: the line protocol, the data, the timing. Header only, nothing of tcc.
//
//   prepare OP name=value ...   ->  {"sum": s, "abs": t} of the output, {"unsupported": true} or {"error": "..."}
//   run SECONDS                 ->  {"seconds": median of a call, "calls": n}
//   quit
//
// Operators: gemm m n k bias relu bf16 int8 (u8 by i8 into i32); conv batch c d h w f kernel stride pad dilation group
// bias bn relu (rank: how many of d h w there are, 2 where it is not given; bn: scale, shift and mean are tensors 3, 2
// and 4, the variance is 1); deconv, the same transposed; attention tokens heads depth (Q K^T for each head); norm rows
// cols; softmax rows cols; layernorm rows cols. All take threads; plain=0 lets the library choose the layouts of what
// it reads and writes (weights are always in the layout it likes best, packed by prepare).
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace tcc::benchmarks {

struct Request {
  std::string op;
  std::map<std::string, int64_t> numbers;
  int64_t operator[](const std::string& name) const {
    auto it = numbers.find(name);
    return it == numbers.end() ? 0 : it->second;
  }
};

class Operation {
 public:
  virtual ~Operation() = default;
  virtual void run() = 0;
  virtual std::vector<float> output() = 0;  // of the last run, row-major
};

// The data of every peer: tensor 0 is the input, 1 the weights or the second input, 2 the bias. In [-1, 1), no special
// values.
inline float data_at(int64_t i, uint32_t tensor) {
  uint32_t bits = (static_cast<uint32_t>(i) * 2654435761u + tensor * 40503u + 12345u) >> 16 & 255u;
  return static_cast<float>(bits) / 128.0f - 1.0f;
}
// The same in integers of 8 bits: signed ones, and from 0 on.
inline int8_t signed_byte_at(int64_t i, uint32_t tensor) {
  return static_cast<int8_t>(data_at(i, tensor) * 128.0f);
}
inline uint8_t byte_at(int64_t i, uint32_t tensor) {
  return static_cast<uint8_t>(data_at(i, tensor) * 128.0f + 128.0f);
}
inline void fill(float* data, int64_t count, uint32_t tensor) {
  for (int64_t i = 0; i < count; ++i) data[i] = data_at(i, tensor);
}

namespace detail {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Samples are means over at least 100 us of calls back to back, after a millisecond of warming up.
inline void time_operation(Operation& operation, double seconds) {
  double start = now(), one = 0;
  do {
    double begin = now();
    operation.run();
    one = now() - begin;
  } while (now() - start < 1e-3);
  auto repeats = static_cast<int64_t>(std::clamp(std::ceil(100e-6 / std::max(one, 1e-8)), 1.0, 1e5));
  std::vector<double> samples;
  start = now();
  do {
    double begin = now();
    for (int64_t i = 0; i < repeats; ++i) operation.run();
    samples.push_back((now() - begin) / static_cast<double>(repeats));
  } while (now() - start < seconds || samples.size() < 3);
  std::sort(samples.begin(), samples.end());
  std::printf("{\"seconds\": %.9g, \"calls\": %lld}\n", samples[samples.size() / 2],
              static_cast<long long>(static_cast<int64_t>(samples.size()) * repeats));
}

inline Request parse(std::istringstream& words) {
  Request request;
  words >> request.op;
  for (std::string word; words >> word;) {
    size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    request.numbers[word.substr(0, equals)] = std::strtoll(word.c_str() + equals + 1, nullptr, 10);
  }
  return request;
}

inline std::string json_text(std::string text) {
  for (char& c : text)
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 32) c = ' ';
  return text;
}

}  // namespace detail

// Serves standard input. prepare returns nullptr for what the library does not offer.
inline int serve(const std::function<std::unique_ptr<Operation>(const Request&)>& prepare) {
  std::unique_ptr<Operation> operation;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "quit") break;
    try {
      if (verb == "prepare") {
        operation.reset();
        operation = prepare(detail::parse(words));
        if (!operation) {
          std::printf("{\"unsupported\": true}\n");
        } else {
          operation->run();
          double sum = 0, magnitude = 0;
          for (float v : operation->output()) sum += v, magnitude += std::fabs(v);
          std::printf("{\"sum\": %.9g, \"abs\": %.9g}\n", sum, magnitude);
        }
      } else if (double seconds = 0; verb == "run" && words >> seconds && operation) {
        detail::time_operation(*operation, seconds);
      } else {
        std::printf("{\"error\": \"not understood or nothing prepared: %s\"}\n", detail::json_text(line).c_str());
      }
    } catch (const std::exception& e) {  // of the library
      std::printf("{\"error\": \"%s\"}\n", detail::json_text(e.what()).c_str());
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace tcc::benchmarks
