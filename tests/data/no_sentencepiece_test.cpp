// Where Cohort is built without the library of SentencePiece.
#include <gtest/gtest.h>

#include <fstream>

#include "data/tokenizer_kind.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

TEST(NoSentencePiece, ItsPackageIsNamed) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "m.model") << "a model";
  EXPECT_ERROR(open_tokenizer(folder / "m.model"), ExitCode::usage, "built without SentencePiece", "libsentencepiece-dev");
  EXPECT_ERROR(read_tokenizer(R"({"kind":"sentencepiece","model":"Zm9v"})", "x.h5"), ExitCode::usage, "libsentencepiece-dev");
}

}  // namespace
}  // namespace cohort
