#include "data/separate_documents.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace cohort {

void SeparateDocuments::add(const TokenFile& file) {
  Starts starts{&file, {}};
  for (const Split split : {Split::train, Split::validation}) {
    const Count documents = file.documents(split);
    if (documents == 0) {
      fail(ExitCode::data,
           "{}: does not say where documents begin, which data.documents = \"separate\" needs; prepare the text again, or set "
           "data.documents = \"joined\"",
           file.path());
    }
    file.verify_documents(split);
    std::vector<std::uint64_t>& of_split = starts.of_split[static_cast<std::size_t>(split)];
    of_split.resize(static_cast<std::size_t>(documents + 1));
    file.read_documents(split, 0, of_split);
  }
  files_.push_back(std::move(starts));
}

void SeparateDocuments::mark(const TokenFile& file, Split split, Count begin, const PackedSample& sample) const {
  const auto found = std::find_if(files_.begin(), files_.end(), [&](const Starts& starts) { return starts.file == &file; });
  COHORT_CHECK(found != files_.end(), "{}: its documents are not known", file.path());
  const std::vector<std::uint64_t>& starts = found->of_split[static_cast<std::size_t>(split)];
  auto token = static_cast<std::uint64_t>(begin);
  auto next = std::upper_bound(starts.begin(), starts.end(), token);  // the document behind that of the first token
  const auto begins = [&](std::uint64_t at) { return next != starts.end() && *next == at; };
  std::int32_t first = 0;
  for (std::size_t t = 0; t < sample.targets.size(); ++t, ++token) {
    if (begins(token)) {
      first = static_cast<std::int32_t>(t);
      ++next;
    }
    sample.first_keys[t] = first;
    sample.positions[t] = static_cast<std::int32_t>(t) - first;
    if (begins(token + 1)) sample.targets[t] = -1;
  }
}

}  // namespace cohort
