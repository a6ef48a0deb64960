#include "labs/grading/judge.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cohort/lab.hpp>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

extern char** environ;

namespace cohort::labs {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Result = Verdict::Result;

constexpr int kPipe = 3;  // in the process that grades

// What that process says: lines "case WORDS", and at the end "RESULT WORDS".
struct Told {
  std::string current_case;
  std::optional<Verdict> verdict;
};

Told told_by(const std::string& text) {
  Told told;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t space = line.find(' ');
    const std::string word = line.substr(0, space), rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (word == "case") told.current_case = rest;
    if (word == "passed") told.verdict = Verdict{};
    if (word == "rejected") told.verdict = Verdict{Result::rejected, rest};
    if (word == "not_written") told.verdict = Verdict{Result::not_written, ""};
  }
  return told;
}

std::string in_case(const Told& told) { return told.current_case.empty() ? "" : " with " + told.current_case; }

// What a signal means to who has written the code.
std::string crash_in_words(int signal) {
  switch (signal) {
    case SIGSEGV:
    case SIGBUS:
      return "it reads or writes memory that is not its own (segmentation fault)";
    case SIGFPE:
      return "it divides an integer by zero";
    case SIGILL:
      return "it runs into an illegal instruction: a function that ends without return, perhaps";
    case SIGABRT:
      return "it aborts: an assertion, an exception that nobody catches, or memory that was written over";
    default:
      return fmt::format("it is ended by signal {} ({})", signal, ::strsignal(signal));
  }
}

class Child {
 public:
  Child(const std::vector<std::string>& words, const std::string& preloaded) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) fail(ExitCode::io, "making a pipe: {}", std::strerror(errno));
    for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
    reading_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], kPipe);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    const std::vector<std::string> environment = environment_with(preloaded);
    const int error = ::posix_spawn(&process_, words.front().c_str(), &actions, &attributes, pointers(words).data(),
                                    pointers(environment).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (error != 0) fail(ExitCode::io, "starting {}: {}", words.front(), std::strerror(error));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { ::close(reading_); }

  /// Reads what it says until it ends, or, after the time limit, ends it: then false.
  bool read_until(Clock::time_point deadline, std::string& text) {
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd waiting{.fd = reading_, .events = POLLIN, .revents = 0};
      const int ready = left <= 0 ? 0 : ::poll(&waiting, 1, static_cast<int>(left));
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) {
        ::kill(-process_, SIGKILL);
        wait();
        return false;
      }
      std::array<char, 4096> block{};
      const ssize_t count = ::read(reading_, block.data(), block.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return true;
      text.append(block.data(), static_cast<std::size_t>(count));
    }
  }

  int wait() {
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }

 private:
  static std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    return pointers;
  }

  // Not the variables of a launcher: the process is no rank.
  static std::vector<std::string> environment_with(const std::string& preloaded) {
    std::vector<std::string> environment;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string_view text = *variable;
      if (!text.starts_with("OMPI_") && !text.starts_with("PMIX_") && !text.starts_with("LD_PRELOAD="))
        environment.emplace_back(text);
    }
    if (!preloaded.empty())
      environment.insert(environment.end(), {"LD_PRELOAD=" + preloaded, "ASAN_OPTIONS=detect_leaks=0:exitcode=86"});
    return environment;
  }

  pid_t process_ = 0;
  int reading_ = -1;
};

constexpr int kSanitizerExit = 86;

}  // namespace

std::string_view name_of(Result result) {
  switch (result) {
    case Result::passed:
      return "passed";
    case Result::rejected:
      return "not right";
    case Result::not_written:
      return "not written yet";
    case Result::crashed:
      return "crashed";
    case Result::hung:
      return "hangs";
  }
  return "";
}

Verdict judge(const Lab& lab, std::size_t exercise, const fs::path& library, const Judging& how) {
  Child child({program_file().string(), "lab", "grade", std::to_string(lab.number), std::string(lab.exercises[exercise].name),
               library.string()},
              how.preloaded);
  std::string text;
  const auto limit = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(how.limit));
  const bool ended = child.read_until(Clock::now() + limit, text);
  const Told told = told_by(text);
  if (!ended) return {Result::hung, fmt::format("no end after {:.0f} s{}: an endless loop?", how.limit, in_case(told))};
  const int status = child.wait();
  if (told.verdict) return *told.verdict;
  if (WIFSIGNALED(status)) {
    const char* more = how.preloaded.empty() ? "; `cohort lab check --sanitize` shows the line" : "";
    return {Result::crashed, fmt::format("{}{}{}", crash_in_words(WTERMSIG(status)), in_case(told), more)};
  }
  if (WEXITSTATUS(status) == kSanitizerExit)
    return {Result::crashed, fmt::format("the sanitizer has stopped it{}; it says above in which line", in_case(told))};
  return {Result::crashed, fmt::format("it ends the whole program with exit code {}{}", WEXITSTATUS(status), in_case(told))};
}

Verdict grade_here(const Lab& lab, std::size_t exercise, const Library& library, Grading& grading) {
  try {
    lab.exercises[exercise].grade(library, grading);
    return {};
  } catch (const lab::NotWritten&) {
    return {Result::not_written, ""};
  } catch (const Rejected& error) {
    const std::string where = grading.current_case().empty() ? "" : grading.current_case() + ": ";
    return {Result::rejected, where + error.what()};
  } catch (const std::exception& error) {
    return {Result::rejected, fmt::format("{}: it throws \"{}\"", grading.current_case(), error.what())};
  }
}

// Ends this process when nobody reads what it says any more: it has a process group of its own, which Ctrl-C in the terminal of
// who started it does not reach, and the exercise may loop.
void end_with_reader() {
  std::thread([] {
    pollfd writing{.fd = kPipe, .events = 0, .revents = 0};
    while (::poll(&writing, 1, -1) < 0 && errno == EINTR) {
    }
    ::_exit(1);
  }).detach();
}

int grade_for_judge(const Lab& lab, std::size_t exercise, const fs::path& library) {
  if (::fcntl(kPipe, F_GETFD) < 0) fail(ExitCode::usage, "`cohort lab grade` is for `cohort lab check`, which starts it");
  const auto say = [](const std::string& word, const std::string& words) {
    std::string line = word + " " + join(split(words, '\n'), " ") + "\n";
    if (::write(kPipe, line.data(), line.size()) < 0) fail(ExitCode::io, "telling the verdict: {}", std::strerror(errno));
  };
  Grading grading([&](const std::string& words) { say("case", words); });
  end_with_reader();
  const Verdict verdict = grade_here(lab, exercise, Library(library), grading);
  const char* word = verdict.result == Result::passed        ? "passed"
                     : verdict.result == Result::not_written ? "not_written"
                                                             : "rejected";
  say(word, verdict.message);
  return 0;
}

}  // namespace cohort::labs
