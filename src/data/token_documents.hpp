// Which document a token is of.
#pragma once

#include <optional>

#include "data/token_file.hpp"

namespace cohort {

/// The number, in its split from 0, of the document that token `token` is of; nothing if the file does not say where documents
/// begin. By bisection in the file: log2(documents) small reads. Errors: as TokenFile::read_documents().
std::optional<Count> document_at(const TokenFile& file, Split split, Count token);

}  // namespace cohort
