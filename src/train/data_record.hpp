// What a checkpoint records of the data of its run, and how that is compared with other data: by content, whatever its file is
// called, and by the tokenizer, without which token ids are numbers that mean nothing.
//
// The record is one line, a name for people and then what is compared:
//   stories.h5 train=33792 crc32=1234abcd validation=3755 crc32=89ab4567 tokenizer=char vocabulary=65 crc32=0badcafe
//   mixture web/train=33792 crc32=1234abcd web/validation=3755 crc32=89ab4567 code/train=... tokenizer=char vocabulary=65
//   crc32=...
//   two_moons samples=1000 inputs=2 seed=1
//   chat.h5 train=... counted=1234abcd,89ab4567 chat=chatml tokenizer=...
// A mixture is compared by the names of its sources, which stand for themselves, and their order, too. Of each split the tokens
// and the CRC-32 of all of them, the same whatever the version of the file; of conversations also which tokens count, and the
// template, which `cohort chat` has to use. Checkpoints of Cohort 0.1.0 end before "tokenizer": then only the splits are
// compared. Imported weights have no record: "".
#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/training_state.hpp"
#include "data/batch.hpp"
#include "data/token_file.hpp"

namespace cohort {

std::string record_of(const TokenFile& file);
/// Of a mixture.
std::string record_of(const std::vector<TokenSourceFile>& sources);
/// The chat template of a record; "" of what was not trained on conversations.
std::string chat_template_of_record(const std::string& record);

/// "char, vocabulary=65, crc32=0badcafe": what tokenizers are compared by.
std::string in_words(const Tokenizer& tokenizer);
/// The same of the tokenizer of a record; "" if it does not tell.
std::string tokenizer_of_record(const std::string& record);
/// The same of a checkpoint's model: as its record tells, or, as imported weights have none, of the tokenizer in the checkpoint;
/// "" if neither is there. Throws Error(data) if that tokenizer cannot be read.
std::string tokenizer_of(const TrainingState& state);

/// How the data of two records differ, as "data: ... in the checkpoint, ... now" and "tokenizer: ... in the checkpoint, ... now";
/// empty if they do not, and as far as one does not tell.
std::vector<std::string> data_changes(const std::string& saved, const std::string& now);

}  // namespace cohort
