// 9.1: after a crash at any point of a save, in any state that the disk may be in, the checkpoint before or the new one is found.
#include "labs/09_checkpoints/grade_saving.hpp"

#include <algorithm>
#include <span>

#include "base/text.hpp"
#include "labs/09_checkpoints/losing_folder.hpp"

namespace cohort::labs::lab09_checkpoints {
namespace {

using SavedParts = std::vector<std::string>;
using Content = LosingFolder::Content;

struct SavingFunctions {
  void (*save)(lab::DiskFolder&, std::span<const std::string>);
  bool (*load)(lab::DiskFolder&, std::vector<std::string>&);
};

void save(const SavingFunctions& functions, LosingFolder& folder, const SavedParts& parts) {
  std::size_t longest = 0;
  for (const std::string& part : parts) longest = std::max(longest, part.size());
  folder.largest_write = longest + 4096;
  functions.save(folder, parts);
}

// What is loaded, in words: "the checkpoint before", "a mixture ...".
std::string described(const SavedParts& found, const SavedParts& before, const SavedParts& saved) {
  if (found.empty()) return "a checkpoint without parts";
  const auto of = [&](const SavedParts& whole) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < found.size() && i < whole.size(); ++i) count += found[i] == whole[i];
    return count;
  };
  if (of(before) + of(saved) >= found.size() && of(saved) > 0 && of(before) > 0)
    return fmt::format("a mixture: {} of the {} parts from the checkpoint before, {} from the new one", of(before), found.size(),
                       of(saved));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool cut = i < saved.size() && found[i].size() < saved[i].size() && saved[i].starts_with(found[i]);
    if (cut) return fmt::format("the new one with {} of the {} bytes of part {}", found[i].size(), saved[i].size(), i);
  }
  return fmt::format("a checkpoint of {} that nobody has saved", counted(static_cast<Count>(found.size()), "part"));
}

struct Crash {
  std::string where;   // "the power is lost after rename(...)"
  bool saved = false;  // the save had returned
};

bool load_after(const SavingFunctions& functions, LosingFolder& folder, const Crash& crash, SavedParts& found) {
  try {
    return functions.load(folder, found);
  } catch (const std::exception& error) {
    reject("{}: then load_newest throws \"{}\"", crash.where, error.what());
  }
}

// The folder as it is after the crash must give `before` (null: nothing) or `parts`.
void check_crashed(const SavingFunctions& functions, LosingFolder folder, const Crash& crash, const SavedParts* before,
                   const SavedParts& parts) {
  SavedParts found{"as it was"};
  const bool loaded = load_after(functions, folder, crash, found);
  if (!loaded) {
    if (found != SavedParts{"as it was"}) reject("{}: load_newest returns false, but has written to parts", crash.where);
    if (before != nullptr) reject("{}: then no checkpoint is found, not even the one before", crash.where);
    if (crash.saved) reject("{}: then the checkpoint is not found, although its save had returned", crash.where);
  } else if (found == parts) {
    // the new one
  } else if (before != nullptr && found == *before) {
    if (crash.saved)
      reject("{}: then the checkpoint before is found, although the save of the new one had returned", crash.where);
  } else {
    reject("{}: then {} is loaded", crash.where, described(found, before == nullptr ? SavedParts{} : *before, parts));
  }
}

std::string files_of(LosingFolder& folder) {
  std::vector<std::string> names = folder.names();
  if (names.size() > 6) names.resize(6);
  return join(names, ", ");
}

// Every crash of one save. The disk holds `before`.
void check_crashes(const SavingFunctions& functions, const LosingFolder& disk, const SavedParts* before,
                   const SavedParts& parts) {
  const SavedParts later{"later 0", "", "later 2"};
  LosingFolder uncut = disk.after_crash(0, Content::whole);  // a copy with files of its own
  save(functions, uncut, parts);
  const int actions = uncut.actions;
  for (int cut = 0; cut <= actions; ++cut) {
    LosingFolder folder = disk.after_crash(0, Content::whole);
    folder.power_lost_at = cut;
    try {
      save(functions, folder, parts);
    } catch (const PowerLost&) {
    }
    for (const Content content : {Content::lost, Content::half, Content::whole}) {
      for (std::size_t state = 0; state < folder.name_states(); ++state) {
        const Crash crash{.where = fmt::format("the power is lost after {}",
                                               cut == actions ? "save_atomically has returned" : folder.last_action),
                          .saved = cut == actions};
        check_crashed(functions, folder.after_crash(state, content), crash, before, parts);
        if (state != 0 && state + 1 != folder.name_states()) continue;
        LosingFolder again = folder.after_crash(state, content);
        save(functions, again, later);
        SavedParts found;
        if (!load_after(functions, again, crash, found) || found != later)
          reject("{}, and the checkpoint after that is saved: it is not the one that is loaded", crash.where);
        if (again.names().size() > later.size() + 2)
          reject(
              "{}, and the next checkpoint is saved: its folder has {} files, {}: what the save that was cut short has left is "
              "still there",
              crash.where, again.names().size(), files_of(again));
      }
    }
  }
}

void check_order(const SavingFunctions& functions) {
  LosingFolder folder;
  SavedParts found{"as it was"};
  if (functions.load(folder, found) || found != SavedParts{"as it was"})
    reject("an empty folder: load_newest must return false, and not write to parts");
  for (int number = 0; number < 12; ++number) {
    SavedParts parts;
    for (int part = 0; part <= number % 4; ++part) parts.push_back(fmt::format("checkpoint {} part {}\n of it", number, part));
    save(functions, folder, parts);
    if (!functions.load(folder, found)) reject("checkpoint {} is saved, and none is found", number);
    if (found != parts)
      reject("checkpoint {} of {} is saved, and {} is loaded", number, counted(static_cast<Count>(parts.size()), "part"),
             described(found, {}, parts));
    if (folder.names().size() > parts.size() + 2)
      reject("after {} the folder has {} files, {}: those of the checkpoints before are still there", counted(number + 1, "save"),
             folder.names().size(), files_of(folder));
  }
}

}  // namespace

void grade_saving(const Library& library, Grading& grading) {
  const SavingFunctions functions{library.function<void(lab::DiskFolder&, std::span<const std::string>)>("save_atomically"),
                                  library.function<bool(lab::DiskFolder&, std::vector<std::string>&)>("load_newest")};
  grading.begin("no crash");
  check_order(functions);
  // Longer than the 4,096 bytes that a write may have beside a part: two of them do not fit into one write.
  const SavedParts first{std::string(6000, 'a'), std::string(5000, 'b')}, fewer{std::string(5500, 'f')},
      second{std::string(6000, 'c'), "d\ne 3\n", std::string(5, '\0')};
  grading.begin("the first checkpoint");
  check_crashes(functions, {}, nullptr, first);
  struct Case {
    const char* words;
    const SavedParts &before, &parts;
  };
  for (const Case& one :
       {Case{"a checkpoint of 2 parts, then one of 3", first, second}, {"one of 3 parts, then one of 1", second, fewer}}) {
    grading.begin(one.words);
    LosingFolder disk;
    save(functions, disk, one.before);
    check_crashes(functions, disk.after_crash(disk.name_states() - 1, Content::whole), &one.before, one.parts);
  }
}

}  // namespace cohort::labs::lab09_checkpoints
