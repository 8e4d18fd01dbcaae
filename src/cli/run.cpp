#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <new>
#include <system_error>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/process.h"
#include "tcc/cli/cli.h"

namespace tcc::cli {
namespace {

// Log lines are remarks like others: they erase the status line and are folded.
class RemarkSink : public spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    remark(false, std::string(text.data(), text.size()));
  }
  void flush_() override {}
};

void set_up_logging(int verbose) {
  auto logger = std::make_shared<spdlog::logger>("tcc", std::make_shared<RemarkSink>());
  logger->set_formatter(std::make_unique<spdlog::pattern_formatter>("tcc: %v", spdlog::pattern_time_type::local, ""));
  logger->set_level(verbose == 0 ? spdlog::level::warn : verbose == 1 ? spdlog::level::info : spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace

int run(int argc, char** argv) try {
  prepare_process(argc, argv);
  const ParsedLine line = parse_command_line(argc, argv);
  if (line.command == nullptr) return line.exit_code;
  const Common& common = *line.command->common;
  set_output_mode({.json = common.json, .wide = common.wide});
  set_up_logging(common.verbose);
  Result<int> result = line.command->run();
  if (result && output_failure().empty()) return *result;
  if (result) {
    print_error({ErrorClass::kEnvironment,
                 fmt::format("cannot write the results to standard output: {}", output_failure()),
                 "free some space there, or send the output elsewhere",
                 {}},
                kFailed);
    return kFailed;
  }
  print_error(result.error(), exit_status(result.error().cls));
  return exit_status(result.error().cls);
} catch (const std::bad_alloc&) {
  print_error({ErrorClass::kEnvironment, fmt::format("out of memory in {}", command_text()), kMemoryHint, {}}, kFailed);
  return kFailed;
} catch (const std::system_error& error) {  // threads that cannot be started
  print_error({ErrorClass::kEnvironment,
               fmt::format("the system refuses what {} needs: {}", command_text(), error.what()),
               "raise the limits on processes and memory (ulimit -u, ulimit -v)",
               {}},
              kFailed);
  return kFailed;
} catch (const std::exception& error) {
  print_error({ErrorClass::kEnvironment,
               fmt::format("a bug in tcc: unexpected exception: {}", error.what()),
               "please report it with the command line and the model",
               {}},
              kBug);
  return kBug;
}

}  // namespace tcc::cli
