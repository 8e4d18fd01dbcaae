// Completion of shells and manual pages, made from the table of commands.
#include <algorithm>

#include "cli/output.h"
#include "cli/table.h"
#include "tcc/cli/cli.h"
#include "tcc/driver/catalogue.h"
#include "tcc/driver/tune.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {

std::vector<OptionText> option_texts(const CLI::App& command) {
  std::vector<OptionText> texts;
  for (const CLI::Option* option : command.get_options()) {
    OptionText text;
    text.what = option->get_description();
    text.positional = !option->nonpositional();
    if (text.positional) {
      text.name = option->get_name();
      texts.push_back(std::move(text));
      continue;
    }
    if (option->get_lnames().empty() || option->get_lnames()[0] == "help") continue;
    text.name = "--" + option->get_lnames()[0];
    if (!option->get_snames().empty()) text.shorter = "-" + option->get_snames()[0];
    if (option->get_items_expected_max() > 0) text.value = option->get_type_name();
    if (option->get_items_expected_max() > 0 && text.value.empty()) text.value = "VALUE";
    texts.push_back(std::move(text));
  }
  std::stable_partition(texts.begin(), texts.end(), [](const OptionText& t) { return t.positional; });
  return texts;
}

namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands({});
}

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
// For single quotes of a shell.
std::string single_quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// What may stand in the place of values that are words of a closed list.
std::vector<std::string> words_for(const std::string& option) {
  if (option == "--target") {
    std::vector<std::string> names = target::target_names();
    names.push_back("cuda");
    return names;
  }
  if (option == "--strategy") return search::strategy_names();
  if (option == "--task-scheduler") return search::task_scheduler_names();
  if (option == "--emit") return {"lib", "obj", "llvm", "ir", "trace"};
  if (option == "--linker") return {"lld", "ld.lld", "ld", "cc"};
  if (option == "SHELL") return {"bash", "zsh", "fish"};
  if (option == "ACTION") return {"stats", "merge", "prune", "export", "import"};
  return {};
}
std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string bash_completion(const CLI::App& app) {
  std::string names, cases;
  for (const CLI::App* command : commands_of(app)) {
    names += (names.empty() ? "" : " ") + command->get_name();
    std::string options, values;
    std::string words;
    for (const OptionText& option : option_texts(*command)) {
      const std::string list = joined(words_for(option.name));
      if (option.positional) {
        words += (words.empty() || list.empty() ? "" : " ") + list;
        continue;
      }
      options += option.name + " " + (option.shorter.empty() ? "" : option.shorter + " ");
      if (option.value.empty()) continue;
      const std::string pattern = option.name + (option.shorter.empty() ? "" : "|" + option.shorter);
      if (!list.empty())
        values += fmt::format("        {}) COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return ;;\n", pattern, list);
      else if (!takes_file(option))
        values += fmt::format("        {}) return ;;\n", pattern);
    }
    cases += fmt::format("    {})\n", command->get_name());
    if (!values.empty()) cases += fmt::format("      case \"$prev\" in\n{}      esac\n", values);
    cases += fmt::format("      options='{}--help'\n      words='{}'\n      ;;\n", options, words);
  }
  return fmt::format(
      "# bash completion of tcc; made by `tcc completion bash`\n"
      "_tcc() {{\n"
      "  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} options= words=\n"
      "  COMPREPLY=()\n"
      "  if [[ $COMP_CWORD -eq 1 ]]; then\n"
      "    COMPREPLY=($(compgen -W '{} --help --version' -- \"$cur\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"${{COMP_WORDS[1]}}\" in\n{}    *) return ;;\n  esac\n"
      "  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
      "  else COMPREPLY=($(compgen -W \"$words\" -- \"$cur\") $(compgen -f -- \"$cur\")); fi\n"
      "}}\n"
      "complete -o filenames -F _tcc tcc\n",
      names, cases);
}

std::string zsh_completion(const CLI::App& app) {
  std::string list, cases;
  for (const CLI::App* command : commands_of(app)) {
    list +=
        fmt::format("    {}\n", single_quoted(command->get_name() + ":" + escape(command->get_description(), ":\\")));
    cases += fmt::format("    {})\n      _arguments \\\n", command->get_name());
    for (const OptionText& option : option_texts(*command)) {
      const std::string words = joined(words_for(option.name));
      const std::string action = !words.empty() ? "(" + words + ")" : takes_file(option) ? "_files" : " ";
      if (option.positional) {
        cases += fmt::format("        {} \\\n", single_quoted("*:" + escape(option.name, ":") + ":" + action));
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

std::string fish_completion(const CLI::App& app) {
  std::string text = "# fish completion of tcc; made by `tcc completion fish`\ncomplete -c tcc -f\n";
  for (const CLI::App* command : commands_of(app)) {
    const std::string& name = command->get_name();
    text += fmt::format("complete -c tcc -n __fish_use_subcommand -a {} -d {}\n", name,
                        single_quoted(command->get_description()));
    const std::string when = fmt::format("-n '__fish_seen_subcommand_from {}'", name);
    for (const OptionText& option : option_texts(*command)) {
      const std::string words = joined(words_for(option.name));
      if (option.positional) {
        text += words.empty() ? fmt::format("complete -c tcc {} -F\n", when)
                              : fmt::format("complete -c tcc {} -a {}\n", when, single_quoted(words));
        continue;
      }
      std::string line = fmt::format("complete -c tcc {} -l {}", when, option.name.substr(2));
      if (!option.shorter.empty()) line += " -s " + option.shorter.substr(1);
      if (!option.value.empty()) line += takes_file(option) ? " -r -F" : " -x";
      if (!words.empty()) line += " -a " + single_quoted(words);
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
    ".TP\n3\nstopped early; the results are valid and saved\n.TP\n70\na bug in tcc\n";

std::string command_page(const CLI::App& command) {
  std::string text = page_head("tcc-" + command.get_name(), command.get_description());
  text += fmt::format(".SH SYNOPSIS\n.B tcc {}\n", roff(command.get_name()));
  std::string options;
  for (const OptionText& option : option_texts(command)) {
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

std::string main_page(const CLI::App& app) {
  std::string text = page_head("tcc", "tensor compiler");
  text += ".SH SYNOPSIS\n.B tcc\n.I command\n[options]\n.SH DESCRIPTION\n" + roff(app.get_description()) +
          "\n.SH COMMANDS\n";
  for (const CLI::App* command : commands_of(app))
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(command->get_name()), roff(command->get_description()));
  return text + kStatusSection;
}

// The table again: the one that parsed this command line is the caller's.
struct Table {
  Arguments arguments;
  CommandFunction command = nullptr;
  std::unique_ptr<CLI::App> app = make_table(arguments, command);
};

}  // namespace

Result<int> run_completion(const Arguments& a) {
  Table table;
  if (a.shell == "bash")
    print(bash_completion(*table.app));
  else if (a.shell == "zsh")
    print(zsh_completion(*table.app));
  else if (a.shell == "fish")
    print(fish_completion(*table.app));
  else
    return make_error(ErrorClass::kUsage, fmt::format("there is no completion for the shell '{}'", sanitize(a.shell)),
                      "name bash, zsh or fish");
  return kOk;
}

Result<int> run_man(const Arguments& a) {
  Table table;
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(*table.app)) names.push_back(command->get_name());
  if (!a.folder.empty()) {
    TCC_TRY_VOID(make_directories(a.folder));
    TCC_TRY_VOID(write_file(a.folder + "/tcc.1", main_page(*table.app)));
    for (const CLI::App* command : commands_of(*table.app))
      TCC_TRY_VOID(write_file(fmt::format("{}/tcc-{}.1", a.folder, command->get_name()), command_page(*command)));
    return kOk;
  }
  if (a.page.empty()) {
    print(main_page(*table.app));
    return kOk;
  }
  if (std::find(names.begin(), names.end(), a.page) == names.end()) {
    const std::string near = suggest(a.page, names);
    return make_error(ErrorClass::kUsage, fmt::format("there is no command '{}'", sanitize(a.page)),
                      near.empty() ? "`tcc --help` lists the commands" : near);
  }
  print(command_page(*table.app->get_subcommand(a.page)));
  return kOk;
}

}  // namespace tcc::cli
