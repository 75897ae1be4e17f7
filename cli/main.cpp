#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <new>
#include <pleiades/pleiades.hpp>
#include <vector>

#include "command.hpp"
#include "options.hpp"

namespace pleiades::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  pleiades synth /data/demo --preset flash-next --rows-base 200000
      a checkpoint of the released width with a table of 1 GB
  pleiades inspect /data/demo
      geometry, shards, bytes
  pleiades run /data/demo --tokens text.u32 --cache-bytes 100MB
      streams real tokens through the layer, a tenth of the table in memory
  pleiades compare /data/demo case.safetensors --layer 1 --tolerance 1e-5
      checks the layer against a dump of another engine

Exit status: 0 done, 1 a comparison or verification failed, 2 bad input.
`pleiades COMMAND --help` has the options and examples of a command.)";

// One subcommand, and what runs when it is chosen.
struct Command {
  CLI::App* app;
  Action action;
};

Command add(CLI::App& parent, const char* name, const char* help, Action (*make)(Options&)) {
  CLI::App* app = parent.add_subcommand(name, help);
  Options options(*app);
  return {app, make(options)};
}

void complain(const char* sentence) { fmt::print(stderr, "pleiades: {}\n", sentence); }

// Runs the command that was chosen. Output that could not be written is an error like any other.
int run_chosen(const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const int status = command.action();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      refuse("standard output could not be written");
    }
    return status;
  }
  refuse("no command was given; pleiades --help lists them");
}

int main_guarded(int argc, char** argv) {
  CLI::App application{"The n-gram memory layers of large language models, at inference."};
  application.name("pleiades");
  application.footer(kExamples);
  application.set_version_flag("--version", ple_version());

  std::vector<Command> commands = {
      add(application, "synth", "Writes a made-up checkpoint in the public layout", &make_synth),
      add(application, "inspect", "Shows geometry, shards and bytes of a checkpoint",
          &make_inspect),
      add(application, "ids", "Prints the row ids of tokens", &make_ids),
      add(application, "run", "Streams tokens through a layer and measures it", &make_run),
      add(application, "compare", "Checks a layer against a dump of another engine", &make_compare),
      add(application, "verify", "Reads a whole checkpoint and checks it", &make_verify),
      add(application, "pack", "Writes a checkpoint's tables in another row format", &make_pack),
  };
  CLI::App& bench = *application.add_subcommand("bench", "Measures this machine");
  commands.push_back(
      add(bench, "layer", "The PLE layer against the machine's ceilings", &make_bench_layer));
  commands.push_back(
      add(bench, "io", "Random row reads from a checkpoint's table", &make_bench_io));
  commands.push_back(add(bench, "cache", "The cache's path of rows in memory", &make_bench_cache));
  try {
    application.parse(argc, argv);
    return run_chosen(commands);
  } catch (const CLI::Success& help) {
    return application.exit(help);
  } catch (const CLI::ParseError& error) {
    complain(error.what());
  } catch (const std::bad_alloc&) {
    complain("out of memory");
  } catch (const std::exception& error) {
    complain(error.what());
  }
  return kBadInput;
}

}  // namespace
}  // namespace pleiades::cli

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like any other
  return pleiades::cli::main_guarded(argc, argv);
}
