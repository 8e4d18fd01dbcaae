// How `--help` looks: the usual options first, then the groups in the order of their declarations, and what concerns
// output last. Texts are folded to the terminal; elsewhere lines have at most 100 columns. Private to the room.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tcc::cli {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

}  // namespace tcc::cli
