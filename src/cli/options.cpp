#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

// A check of a number. Its message names the numbers that are allowed and the text that was given.
CLI::Validator number_check(const std::string& expected, bool (*valid)(double, double, double), double low, double high,
                            std::string in_help) {
  return CLI::Validator(
      [expected, valid, low, high](std::string& text) -> std::string {
        double number = 0;
        if (CLI::detail::lexical_cast(text, number) && valid(number, low, high)) return "";
        return fmt::format("expected {}, not '{}'", expected, text);
      },
      std::move(in_help));
}

// Before CLI11 converts the text, with a message of its own.
template <typename Number>
void check_whole(CLI::Option* option) {
  option->check(CLI::Validator(
      [](std::string& text) -> std::string {
        Number number = 0;
        if (CLI::detail::lexical_cast(text, number) && (std::is_signed_v<Number> || !text.starts_with("-"))) return "";
        return fmt::format("expected a whole number{}, not '{}'", std::is_signed_v<Number> ? "" : " from 0 on", text);
      },
      ""));
}

// A value that is not empty: an empty one mostly is a shell's variable that is not set.
void check_filled(CLI::Option* option) {
  option->check(CLI::Validator(
      [](std::string& text) -> std::string {
        return text.empty() ? "expected a value, not '' (a variable of the shell that is not set?)" : "";
      },
      ""));
}

}  // namespace

Option& Option::value(const std::string& name) {
  option_->type_name(name);
  return *this;
}
Option& Option::words(std::vector<std::string> words) {
  (*words_)[option_] = {std::move(words), false};
  return *this;
}
Option& Option::comma_words(std::vector<std::string> words) {
  (*words_)[option_] = {std::move(words), true};
  return *this;
}
Option& Option::one_of(const std::vector<std::string>& words) {
  option_->check(CLI::Validator(
      [words](std::string& text) -> std::string {
        if (std::find(words.begin(), words.end(), text) != words.end()) return "";
        return fmt::format("expected {}, not '{}'", fmt::join(words, " or "), text);
      },
      fmt::format("{{{}}}", fmt::join(words, ","))));
  return this->words(words);
}
Option& Option::positive() {
  const auto above = [](double number, double low, double) { return number > low; };
  option_->transform(number_check("a number above 0", above, 0, 0, ""));  // before the check of whole numbers
  return *this;
}
Option& Option::range(double low, double high) {
  const auto within = [](double number, double least, double most) { return number >= least && number <= most; };
  const std::string bounds = fmt::format("{} to {}", low, high);
  option_->check(number_check("a number from " + bounds, within, low, high, bounds));
  return *this;
}
Option& Option::required() {
  option_->required();
  return *this;
}
Option& Option::show_default() {
  option_->capture_default_str();
  return *this;
}
Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}
Option& Option::separated_by_commas() {
  option_->delimiter(',');
  return *this;
}
Option& Option::expects(int count) {
  option_->allow_extra_args()->expected(count);
  return *this;
}

Option& Option::noted(std::vector<std::string>& list) {
  option_->each([option = option_, &list](const std::string&) {
    const std::string name = "--" + option->get_lnames().at(0);
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  });
  return *this;
}
Option& Option::usual() {
  option_->group(kUsualGroup);
  return *this;
}

Option Options::finish(CLI::Option* option) {
  if (!heading_.empty() && option->nonpositional()) option->group(heading_);
  return Option(option, words_);
}
Option Options::add(const std::string& names, Field field, const std::string& what) {
  return std::visit(
      [&]<typename T>(T* value) {
        CLI::Option* option = app_.add_option(names, *value, what);
        if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::optional<std::string>>)
          check_filled(option);
        if constexpr (std::is_same_v<T, int64_t>) check_whole<int64_t>(option);
        if constexpr (std::is_same_v<T, uint64_t> || std::is_same_v<T, std::optional<uint64_t>>)
          check_whole<uint64_t>(option);
        return finish(option);
      },
      field);
}
Option Options::flag(const std::string& names, bool& field, const std::string& what) {
  return finish(app_.add_flag(names, field, what));
}
Option Options::count(const std::string& names, int& field, const std::string& what) {
  return finish(app_.add_flag(names, field, what));
}
Option Options::list(const std::string& names, std::vector<std::string>& field, const std::string& what) {
  CLI::Option* option = app_.add_option(names, field, what);
  check_filled(option);
  if (option->nonpositional()) option->allow_extra_args(false);
  return finish(option);
}

}  // namespace tcc::cli
