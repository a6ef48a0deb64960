#include "base/error.hpp"
#include "data/sentencepiece/sentencepiece_model.hpp"

namespace cohort {

std::unique_ptr<SentencePieceModel> load_sentencepiece(std::string /*proto*/) {
  fail(ExitCode::usage,
       "a SentencePiece model, but this cohort was built without SentencePiece: install its library (on Debian: apt install "
       "libsentencepiece-dev) and build Cohort again");
}

}  // namespace cohort
