#include "lld.h"

#if TCC_HAVE_LLD

#include <lld/Common/Driver.h>
#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/raw_ostream.h>

#include <mutex>

LLD_HAS_DRIVER(elf)

namespace tcc::package {
namespace {

std::mutex lld_mutex;        // lld keeps its state in globals
bool lld_is_broken = false;  // a crash inside lld was caught: its state is lost

}  // namespace

bool has_lld() {
  std::lock_guard lock(lld_mutex);
  return !lld_is_broken;
}

std::optional<std::string> run_lld(const std::vector<std::string>& arguments) {
  std::lock_guard lock(lld_mutex);
  if (lld_is_broken) return "lld crashed in an earlier link";
  // LLVM has no exceptions: where memory is short, a thread of lld that cannot begin would end this process.
  std::vector<const char*> argv{"ld.lld", "--threads=1"};
  for (const std::string& a : arguments) argv.push_back(a.c_str());
  std::string text;
  llvm::raw_string_ostream messages(text);
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  lld::Result result = lld::lldMain(argv, messages, messages, drivers);
  lld_is_broken = !result.canRunAgain;
  if (result.retCode == 0) return std::nullopt;
  messages.flush();
  return text.empty() ? "lld failed without a message" : text;
}

}  // namespace tcc::package

#else

namespace tcc::package {

bool has_lld() {
  return false;
}
std::optional<std::string> run_lld(const std::vector<std::string>&) {
  return "this build of tcc has no lld inside";
}

}  // namespace tcc::package

#endif
