// A program with a fault for a sanitizer to find: race, heap, index or overflow.
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

void race() {
  int steps = 0;
  std::thread saver([&] { ++steps; });
  ++steps;
  saver.join();
  std::printf("%d\n", steps);
}

void heap(int index) {
  const auto values = std::make_unique<int[]>(4);
  values[index] = 1;
  std::printf("%d\n", values[index]);
}

void index(std::size_t beyond) {
  std::vector<int> values(4);
  values.reserve(8);  // the memory is there, the element is not
  std::printf("%d\n", values[beyond]);
}

void overflow(int more) { std::printf("%d\n", std::numeric_limits<int>::max() + more); }

}  // namespace

int main(int argc, char** argv) {
  const std::string fault = argc == 2 ? argv[1] : "";
  if (fault == "race") race();
  if (fault == "heap") heap(argc + 2);
  if (fault == "index") index(static_cast<std::size_t>(argc) + 3);
  if (fault == "overflow") overflow(argc);
}
