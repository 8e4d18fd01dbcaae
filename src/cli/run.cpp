#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <new>
#include <system_error>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/process.h"
#include "tcc/cli/cli.h"

namespace tcc::cli {
namespace {

void set_up_logging(int verbose) {
  auto logger = std::make_shared<spdlog::logger>("tcc", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("tcc: %v");
  logger->set_level(verbose == 0 ? spdlog::level::warn : verbose == 1 ? spdlog::level::info : spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

int exit_code(ErrorClass cls) {
  return cls == ErrorClass::kUsage ? kUsage : kFailed;
}

}  // namespace

int run(int argc, char** argv) try {
  prepare_process(argc, argv);
  const ParsedLine line = parse_command_line(argc, argv);
  if (line.command == nullptr) return line.exit_code;
  set_up_logging(line.command->common->verbose);
  Result<int> result = line.command->run();
  if (result && output_failure().empty()) return *result;
  if (result) {
    print_error({ErrorClass::kEnvironment,
                 fmt::format("cannot write the results to standard output: {}", output_failure()),
                 "free some space there, or send the output elsewhere",
                 {}});
    return kFailed;
  }
  print_error(result.error());
  return exit_code(result.error().cls);
} catch (const std::bad_alloc&) {
  print_error({ErrorClass::kEnvironment, fmt::format("out of memory in {}", command_text()), kMemoryHint, {}});
  return kFailed;
} catch (const std::system_error& error) {  // threads that cannot be started
  print_error({ErrorClass::kEnvironment,
               fmt::format("the system refuses what {} needs: {}", command_text(), error.what()),
               "raise the limits on processes and memory (ulimit -u, ulimit -v)",
               {}});
  return kFailed;
} catch (const std::exception& error) {
  print_error({ErrorClass::kEnvironment,
               fmt::format("a bug in tcc: unexpected exception: {}", error.what()),
               "please report it with the command line and the model",
               {}});
  return kBug;
}

}  // namespace tcc::cli
