// Completion of shells and manual pages, made from the table of commands.
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/output.h"
#include "cli/table.h"
#include "tcc/driver/compile.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {

namespace {

bool takes_file(const OptionText& option) {
  return option.positional || option.value.find("FILE") != std::string::npos ||
         option.value.find("DIR") != std::string::npos || option.value.find(".json") != std::string::npos;
}

std::string escape(const std::string& text, std::string_view characters) {
  std::string out;
  for (char c : text) {
    if (characters.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// What completes an option's value: words, words with commas between them, files, or nothing.
std::string value_case(const OptionText& option) {
  const std::string pattern = option.name + (option.shorter.empty() ? "" : "|" + option.shorter);
  const std::string kind = !option.words.empty() ? option.commas ? "commas" : "words"
                           : takes_file(option)  ? "files"
                                                 : "nothing";
  return fmt::format("        {}) kind={} list='{}' ;;\n", pattern, kind, fmt::join(option.words, " "));
}

std::string bash_completion(const Table& table) {
  std::string cases;
  for (const CLI::App* command : table.commands()) {
    std::string options, valued, values, first;
    for (const OptionText& option : table.options_of(*command)) {
      if (option.positional) {
        if (first.empty()) first = fmt::format("{}", fmt::join(option.words, " "));
        continue;
      }
      const std::string names = option.name + " " + (option.shorter.empty() ? "" : option.shorter + " ");
      options += names;
      if (option.value.empty()) continue;
      valued += names;
      values += value_case(option);
    }
    cases += fmt::format("    {})\n", command->get_name());
    if (!values.empty()) cases += fmt::format("      case \"$key\" in\n{}      esac\n", values);
    cases += fmt::format("      options='{}--help' valued=' {}' first='{}'\n      ;;\n", options, valued, first);
  }
  constexpr std::string_view kHead = R"(# bash completion of tcc; made by `tcc completion bash`
_tcc() {
  local -a line=()
  local i word glue= kind= list= options= valued= first= at=0
  COMPREPLY=()
  # bash takes zoo:NAME and --option=VALUE for three words each.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $i -gt 0 && ($word == [:=] || -n $glue) ]]; then line[${#line[@]}-1]+=$word; else line+=("$word"); fi
    glue=
    if [[ $word == [:=] ]]; then glue=1; fi
  done
  local n=${#line[@]}
  local cur=${line[n-1]} key=${line[n-2]} value=${line[n-1]} lead= head= drop=
  if [[ $n -le 2 ]]; then
    COMPREPLY=($(compgen -W ')";
  constexpr std::string_view kMiddle = R"( --help --version' -- "$cur"))
    return
  fi
  if [[ $cur == --*=* ]]; then key=${cur%%=*} value=${cur#*=} lead=${cur%%=*}=; fi
  case "${line[1]}" in
)";
  constexpr std::string_view kEnd = R"(    *) return ;;
  esac
  if [[ -z $kind && $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
    return
  fi
  if [[ -z $kind ]]; then
    for ((i = 2; i < n - 1; i++)); do
      if [[ ${line[i]} != -* ]]; then ((++at)); fi
      if [[ $valued == *" ${line[i]} "* ]]; then ((++i)); fi
    done
    kind=files
    if [[ $at -eq 0 && -n $first ]]; then kind=either list=$first; fi
  fi
  case $kind in
    words) COMPREPLY=($(compgen -W "$list" -- "$value")) ;;
    commas)
      if [[ $value == *,* ]]; then head=${value%,*},; fi
      COMPREPLY=($(compgen -P "$head" -W "$list" -- "${value##*,}"))
      compopt -o nospace 2>/dev/null ;;
    files) COMPREPLY=($(compgen -f -- "$value")) ;;
    either) COMPREPLY=($(compgen -W "$list" -- "$value") $(compgen -f -- "$value")) ;;
  esac
  # What is in front of the last break is on the line already.
  local breaks=${COMP_WORDBREAKS-:=}
  breaks=${breaks//[^:=]/}
  if [[ -n $breaks && $cur == *[$breaks]* ]]; then drop=${cur%"${cur##*[$breaks]}"}; fi
  for i in "${!COMPREPLY[@]}"; do
    word=$lead${COMPREPLY[i]}
    COMPREPLY[i]=${word#"$drop"}
  done
}
complete -o filenames -F _tcc tcc
)";
  return fmt::format("{}{}{}{}{}", kHead, fmt::join(table.command_names(), " "), kMiddle, cases, kEnd);
}

std::string zsh_completion(const Table& table) {
  std::string list, cases;
  for (const CLI::App* command : table.commands()) {
    list +=
        fmt::format("    {}\n", single_quoted(command->get_name() + ":" + escape(command->get_description(), ":\\")));
    cases += fmt::format("    {})\n      _arguments \\\n", command->get_name());
    const std::vector<OptionText> options = table.options_of(*command);
    auto left = std::count_if(options.begin(), options.end(), [](const OptionText& o) { return o.positional; });
    int64_t place = 0;
    for (const OptionText& option : options) {
      const std::string words = escape(fmt::format("{}", fmt::join(option.words, " ")), ":");
      const std::string action = words.empty()   ? takes_file(option) ? "_files" : " "
                                 : option.commas ? "_sequence compadd - " + words
                                                 : "(" + words + ")";
      if (option.positional) {
        const std::string where = --left == 0 ? "*" : std::to_string(++place);
        cases += fmt::format("        {} \\\n", single_quoted(where + ":" + escape(option.name, ":") + ":" + action));
        continue;
      }
      std::string spec =
          "*" + option.name + (option.value.empty() ? "" : "=") + "[" + escape(option.what, "[]:\\") + "]";
      if (!option.value.empty()) spec += ":" + escape(option.value, ":") + ":" + action;
      cases += fmt::format("        {} \\\n", single_quoted(spec));
    }
    cases += "        '--help[Print help]'\n      ;;\n";
  }
  return fmt::format(
      "#compdef tcc\n# zsh completion of tcc; made by `tcc completion zsh`\n"
      "_tcc() {{\n  local -a commands\n  commands=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
      "  local command=$words[2]\n  shift words; (( CURRENT-- ))\n"
      "  case $command in\n{}  esac\n}}\n"
      "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _tcc \"$@\"; else compdef _tcc tcc; fi\n",
      list, cases);
}

std::string fish_completion(const Table& table) {
  std::string text = "# fish completion of tcc; made by `tcc completion fish`\ncomplete -c tcc -f\n";
  for (const CLI::App* command : table.commands()) {
    const std::string& name = command->get_name();
    text += fmt::format("complete -c tcc -n __fish_use_subcommand -a {} -d {}\n", name,
                        single_quoted(command->get_description()));
    const std::string when = fmt::format("-n '__fish_seen_subcommand_from {}'", name);
    for (const OptionText& option : table.options_of(*command)) {
      const std::string words = fmt::format("{}", fmt::join(option.words, " "));
      if (option.positional) {
        // Words are for the first place; files may follow.
        text += words.empty() ? fmt::format("complete -c tcc {} -F\n", when)
                              : fmt::format(
                                    "complete -c tcc -n '__fish_seen_subcommand_from {}; and not "
                                    "__fish_seen_subcommand_from {}' -a {}\n",
                                    name, words, single_quoted(words));
        continue;
      }
      std::string line = fmt::format("complete -c tcc {} -l {}", when, option.name.substr(2));
      if (!option.shorter.empty()) line += " -s " + option.shorter.substr(1);
      if (!option.value.empty()) line += takes_file(option) ? " -r -F" : " -x";
      if (!words.empty()) line += " -a " + single_quoted(option.commas ? "(__fish_append , " + words + ")" : words);
      text += line + " -d " + single_quoted(option.what) + "\n";
    }
  }
  return text;
}

// --- manual pages

std::string roff(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '-') {
      out += "\\-";
    } else if (c == '\\') {
      out += "\\e";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string page_head(const std::string& name, const std::string& what) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  return fmt::format(".TH {} 1 \"\" \"tcc {}\" \"tcc manual\"\n.SH NAME\n{} \\- {}\n", roff(upper),
                     driver::tool_version(), roff(name), roff(what));
}

constexpr const char* kStatusSection =
    ".SH EXIT STATUS\n.TP\n0\nok\n.TP\n1\nthe input or the environment is at fault\n.TP\n2\nthe command line is\n"
    ".TP\n3\nstopped early; the results are valid and saved\n.TP\n4\nverify: what was compared is right, but tells "
    "nothing\n.TP\n5\nsome tasks failed; the results of the others are valid and saved\n.TP\n6\ntune "
    "--strict-timing: other programs disturbed the times\n.TP\n70\na bug in tcc\n";

std::string command_page(const Table& table, const CLI::App& command) {
  std::string text = page_head("tcc-" + command.get_name(), command.get_description());
  text += fmt::format(".SH SYNOPSIS\n.B tcc {}\n", roff(command.get_name()));
  std::string options;
  for (const OptionText& option : table.options_of(command)) {
    if (option.positional) text += fmt::format(".I {}\n", roff(option.name));
    std::string name = option.shorter.empty() ? option.name : option.shorter + ", " + option.name;
    options += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(name),
                           option.value.empty() ? "" : " \\fI" + roff(option.value) + "\\fR", roff(option.what));
  }
  text += "[options]\n.SH OPTIONS\n" + options;
  const std::string footer = command.get_footer();
  const size_t examples = footer.find('\n');
  if (examples != std::string::npos) text += ".SH EXAMPLES\n.nf\n" + roff(footer.substr(examples + 1)) + "\n.fi\n";
  return text + kStatusSection + ".SH SEE ALSO\n.BR tcc (1)\n";
}

std::string main_page(const Table& table) {
  std::string text = page_head("tcc", "tensor compiler");
  text += ".SH SYNOPSIS\n.B tcc\n.I command\n[options]\n.SH DESCRIPTION\n" + roff(table.app().get_description()) +
          "\n.SH COMMANDS\n";
  for (const CLI::App* command : table.commands())
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(command->get_name()), roff(command->get_description()));
  return text + kStatusSection;
}

struct CompletionArguments {
  Common common;
  std::string shell;
};

struct ManArguments {
  Common common;
  std::string page, folder;
};

void declare_completion(Options& options, CompletionArguments& a) {
  options.option("SHELL", a.shell, "bash, zsh or fish").words({"bash", "zsh", "fish"}).required();
}

void declare_man(Options& options, ManArguments& a) {
  options.option("COMMAND", a.page, "The command; without it, the page of tcc itself");
  options.option("--all", a.folder, "Write all pages into this folder instead").value("DIR");
}

Result<int> completion(const CompletionArguments& a) {
  const Table table;
  if (a.shell == "bash") return print_exact(bash_completion(table));
  if (a.shell == "zsh") return print_exact(zsh_completion(table));
  if (a.shell == "fish") return print_exact(fish_completion(table));
  return make_error(ErrorClass::kUsage,
                    fmt::format("tcc completion: expected bash, zsh or fish, not '{}'", sanitize(a.shell)),
                    "tcc completion bash");
}

Result<int> man(const ManArguments& a) {
  const Table table;
  const std::vector<std::string> names = table.command_names();
  if (!a.folder.empty()) {
    TCC_TRY_VOID(make_directories(a.folder));
    TCC_TRY_VOID(write_file(a.folder + "/tcc.1", main_page(table)));
    for (const CLI::App* command : table.commands())
      TCC_TRY_VOID(
          write_file(fmt::format("{}/tcc-{}.1", a.folder, command->get_name()), command_page(table, *command)));
    return kOk;
  }
  if (a.page.empty()) return print_exact(main_page(table));
  if (std::find(names.begin(), names.end(), a.page) == names.end()) {
    const std::string near = suggest(a.page, names);
    return make_error(ErrorClass::kUsage, fmt::format("there is no command '{}'", sanitize(a.page)),
                      near.empty() ? "`tcc --help` lists the commands" : near);
  }
  return print_exact(command_page(table, *table.app().get_subcommand(a.page)));
}

}  // namespace

Command completion_command() {
  return make_command("completion", "Print the completion of a shell",
                      "  tcc completion bash > ~/.local/share/bash-completion/completions/tcc\n"
                      "  tcc completion zsh > ~/.zfunc/_tcc\n"
                      "  tcc completion fish > ~/.config/fish/completions/tcc.fish",
                      declare_completion, completion);
}

Command man_command() {
  return make_command("man", "Print a manual page",
                      "  tcc man tune | man -l -\n"
                      "  tcc man --all man1",
                      declare_man, man);
}

}  // namespace tcc::cli
