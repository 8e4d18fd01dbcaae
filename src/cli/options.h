// How a command declares its options: each one names a field of the command's own arguments. Private to the room.
// CLI11 does the parsing; only options.cpp, table.cpp and the units around them see it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tcc::cli {

inline constexpr const char* kUsualGroup = "Usual options";

inline constexpr const char* kOutputGroup = "Output";

// The words that shells offer for an option's value.
struct WordList {
  std::vector<std::string> words;
  bool commas = false;  // the value is a list of them, with commas between
};
using OptionWords = std::map<const CLI::Option*, WordList>;

// More about an option that was declared; every function returns the option again.
class Option {
 public:
  Option(CLI::Option* option, OptionWords& words) : option_(option), words_(&words) {}

  Option& value(const std::string& name);                 // the value's name in help: "FILE", "N"
  Option& words(std::vector<std::string> words);          // words that shells offer; others are allowed
  Option& comma_words(std::vector<std::string> words);    // of a list with commas
  Option& one_of(const std::vector<std::string>& words);  // the only words allowed
  Option& positive();                                     // a number above 0
  Option& range(double low, double high);                 // a number from low to high
  Option& required();
  Option& show_default();              // help prints the field's first value
  Option& needs(const Option& other);  // is an error without the other option
  Option& separated_by_commas();       // of a list
  Option& expects(int count);          // of a list: this many values
  // Where the option is used, its name goes to `list`, once.
  Option& noted(std::vector<std::string>& list);
  // One of those that most calls need: help shows it first.
  Option& usual();

 private:
  CLI::Option* option_;
  OptionWords* words_;
};

// The options of one command. Names are "--long", "-s,--long" or, of positional arguments, "NAME".
class Options {
 public:
  Options(CLI::App& app, OptionWords& words) : app_(app), words_(words) {}

  // Help lists the options that follow under this heading, except those that are usual().
  void section(const std::string& heading) { heading_ = heading; }

  Option flag(const std::string& names, bool& field, const std::string& what);
  Option count(const std::string& names, int& field, const std::string& what);  // -vv: 2
  template <typename T>
  Option option(const std::string& names, T& field, const std::string& what) {
    return add(names, &field, what);
  }
  // Values add up: a named option takes one at a time and may be repeated, a positional one takes all that are left.
  Option list(const std::string& names, std::vector<std::string>& field, const std::string& what);

 private:
  using Field =
      std::variant<std::string*, std::optional<std::string>*, int64_t*, uint64_t*, std::optional<uint64_t>*, double*>;
  Option add(const std::string& names, Field field, const std::string& what);
  Option finish(CLI::Option* option);

  CLI::App& app_;
  OptionWords& words_;
  std::string heading_;
};

}  // namespace tcc::cli
