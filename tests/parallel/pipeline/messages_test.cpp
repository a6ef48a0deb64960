// The order of a pipeline's messages: executed as NCCL does, on one stream and without buffers, no schedule deadlocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "parallel/pipeline/cases.hpp"
#include "parallel/pipeline/messages.hpp"
#include "parallel/pipeline/timeline.hpp"

namespace cohort::test {
namespace {

using namespace pipeline;

using Plans = std::vector<std::vector<Receives>>;  // of each rank

Plans plans_of(const Schedule& schedule) {
  Plans plans;
  for (int rank = 0; rank < schedule.stages; ++rank) plans.push_back(receives_of(schedule, rank));
  return plans;
}

// A message by what needs it: (pass, micro-batch, virtual stage).
using Id = std::tuple<Pass, int, int>;
Id id_of(const Schedule& schedule, int rank, const Action& action) {
  return {action.pass, action.micro_batch, schedule.virtual_stage({rank, action.chunk})};
}

// Executes plans in the strictest way that a backend may have: the communication of a rank is a queue of launches; a launch
// starts when the one before is complete and what the compute queue had before it has run; it is complete when for each of its
// messages the other side has started its launch, too. An action runs when the one before has, and when the launch with its input
// is complete. Returns whether all actions run.
class Stream {
 public:
  Stream(const Schedule& schedule, const Plans& plans) : schedule_(schedule), lists_(actions_of_all(schedule)) {
    ranks_.resize(lists_.size());
    for (int rank = 0; rank < schedule.stages; ++rank) enqueue(rank, plans[static_cast<std::size_t>(rank)]);
  }

  bool runs() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank& rank : ranks_) moved = advance(rank) || moved;
    }
    for (const Rank& rank : ranks_) {
      if (rank.actions < rank.inputs.size()) return false;
    }
    return true;
  }

 private:
  struct Launch {
    std::size_t after;  // actions that must have run
    std::vector<Id> messages;
  };
  struct Rank {
    std::vector<Launch> launches;
    std::vector<std::size_t> inputs;  // of each action: launches that must be complete
    std::size_t launched = 0;         // complete ones
    std::size_t actions = 0;          // that have run
    bool started = false;             // the launch after those
  };

  void enqueue(int number, const std::vector<Receives>& plan) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    const std::vector<Action>& actions = lists_[static_cast<std::size_t>(number)];
    std::map<Id, std::size_t> received_with;
    std::vector<Id> posted;  // not yet launched
    const auto launch = [&](std::size_t after) {
      if (posted.empty()) return;
      rank.launches.push_back({after, posted});
      for (const Id& id : posted) received_with[id] = rank.launches.size();
      posted.clear();
    };
    for (std::size_t i = 0; i < actions.size(); ++i) {
      for (const Receive& receive : plan[i].before) posted.push_back(id_of(schedule_, number, receive.action));
      launch(i);
      const std::optional<Place> source = source_of(schedule_, number, actions[i]);
      std::size_t needs = 0;
      if (source && source->rank != number) {
        const auto found = received_with.find(id_of(schedule_, number, actions[i]));
        needs = found == received_with.end() ? ~std::size_t{0} : found->second;  // never posted: never runs
      }
      rank.inputs.push_back(needs);
      for (const Receive& receive : plan[i].during) posted.push_back(id_of(schedule_, number, receive.action));
      launch(i);
      const std::optional<Place> target = target_of(schedule_, number, actions[i]);
      if (target && target->rank != number)
        posted.push_back(id_of(schedule_, target->rank, {actions[i].pass, actions[i].micro_batch, target->chunk}));
    }
    launch(actions.size());
  }

  bool advance(Rank& rank) {
    bool moved = false;
    if (rank.actions < rank.inputs.size() && rank.inputs[rank.actions] <= rank.launched) {
      ++rank.actions;
      moved = true;
    }
    if (rank.launched == rank.launches.size()) return moved;
    const Launch& launch = rank.launches[rank.launched];
    if (!rank.started && launch.after <= rank.actions) {
      rank.started = moved = true;
      for (const Id& id : launch.messages) ++sides_[id];
    }
    if (!rank.started) return moved;
    for (const Id& id : launch.messages) {
      if (sides_[id] < 2) return moved;
    }
    ++rank.launched;
    rank.started = false;
    return true;
  }

  const Schedule& schedule_;
  std::vector<std::vector<Action>> lists_;
  std::vector<Rank> ranks_;
  std::map<Id, int> sides_;  // sender and receiver, as they start
};

TEST(PipelineMessages, NoScheduleDeadlocksOnOneStreamWithoutBuffers) {
  for_each_schedule([](const Schedule& schedule) { EXPECT_TRUE(Stream(schedule, plans_of(schedule)).runs()); });
}

// The executor can fail. Receives that are posted as early as can be hold up the sends behind them.
TEST(PipelineMessages, ReceivesPostedTooEarlyDeadlock) {
  const auto early = [](const Schedule& schedule, std::size_t by) {
    Plans plans = plans_of(schedule);
    for (std::vector<Receives>& plan : plans) {
      for (std::size_t i = 0; i < plan.size(); ++i) {
        for (std::vector<Receive>* receives : {&plan[i].before, &plan[i].during}) {
          if (i == 0) continue;
          std::vector<Receive>& to = plan[i - std::min(i, by)].during;
          to.insert(to.end(), receives->begin(), receives->end());
          receives->clear();
        }
      }
    }
    return Stream(schedule, plans).runs();
  };
  for (const Schedule& schedule : {Schedule{ScheduleKind::gpipe, 4, 1, 8}, Schedule{ScheduleKind::one_f_one_b, 4, 1, 8},
                                   Schedule{ScheduleKind::interleaved, 4, 2, 8}}) {
    EXPECT_FALSE(early(schedule, 1000)) << name_of(schedule.kind);
    EXPECT_FALSE(early(schedule, 4)) << name_of(schedule.kind);
  }
}

TEST(PipelineMessages, EveryInputFromAnotherRankIsPostedOnceAndInTime) {
  for_each_schedule([](const Schedule& schedule) {
    for (int rank = 0; rank < schedule.stages; ++rank) {
      const std::vector<Action> actions = actions_of(schedule, rank);
      const std::vector<Receives> plan = receives_of(schedule, rank);
      ASSERT_EQ(plan.size(), actions.size());
      std::map<Id, int> posted;
      std::size_t inputs = 0;
      for (std::size_t i = 0; i < actions.size(); ++i) {
        for (const Receive& receive : plan[i].before) ++posted[id_of(schedule, rank, receive.action)];
        const std::optional<Place> source = source_of(schedule, rank, actions[i]);
        if (source && source->rank != rank) {
          ++inputs;
          EXPECT_EQ(posted[id_of(schedule, rank, actions[i])], 1);
        }
        for (const Receive& receive : plan[i].during) ++posted[id_of(schedule, rank, receive.action)];
      }
      EXPECT_EQ(posted.size(), inputs);
    }
  });
}

// So one queue for each pair of ranks is enough: no tags.
TEST(PipelineMessages, TwoRanksReceiveInTheOrderInWhichTheySend) {
  for_each_schedule([](const Schedule& schedule) {
    using Queues = std::map<std::pair<int, int>, std::vector<Id>>;  // (from, to)
    Queues sent, received;
    for (int rank = 0; rank < schedule.stages; ++rank) {
      for (const Action& action : actions_of(schedule, rank)) {
        const std::optional<Place> target = target_of(schedule, rank, action);
        if (!target || target->rank == rank) continue;
        sent[{rank, target->rank}].push_back(id_of(schedule, target->rank, {action.pass, action.micro_batch, target->chunk}));
      }
      for (const Receives& receives : receives_of(schedule, rank)) {
        for (const std::vector<Receive>* part : {&receives.before, &receives.during}) {
          for (const Receive& receive : *part) received[{receive.from, rank}].push_back(id_of(schedule, rank, receive.action));
        }
      }
    }
    EXPECT_EQ(sent, received);
  });
}

TEST(PipelineMessages, CountIsThatOfTheBoundariesBetweenStages) {
  for_each_schedule([](const Schedule& schedule) {
    Count sends = 0;
    for (int rank = 0; rank < schedule.stages; ++rank) sends += sends_of(schedule, rank);
    // An activation and a gradient for each micro-batch and boundary; with one rank nothing.
    EXPECT_EQ(sends, schedule.stages == 1 ? 0 : Count{2} * schedule.micro_batches * (schedule.virtual_stages() - 1));
  });
}

// Messages in a rank's memory, action by action: what it has received and not yet given back, the gradient at work, and the last
// gradient made, which may still be on its way.
Count counted_messages(const Schedule& schedule, int rank) {
  const std::vector<Action> actions = actions_of(schedule, rank);
  const std::vector<Receives> receives = receives_of(schedule, rank);
  const auto from_other = [&](const std::optional<Place>& place) { return place && place->rank != rank; };
  Count live = 0, most = 0, being_sent = 0;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    live += static_cast<Count>(receives[i].before.size() + receives[i].during.size());
    most = std::max(most, live + being_sent);
    if (action.pass == Pass::forward) continue;
    if (!source_of(schedule, rank, action)) ++live;  // of the loss: a buffer of its own
    most = std::max(most, live + being_sent);
    if (from_other(source_of(schedule, rank, {Pass::forward, action.micro_batch, action.chunk}))) --live;
    --live;
    being_sent = from_other(target_of(schedule, rank, action)) ? 1 : 0;
  }
  return most;
}

TEST(PipelineMessages, MemoryIsBoundedClosely) {
  for_each_schedule([](const Schedule& schedule) {
    for (int rank = 0; schedule.stages > 1 && rank < schedule.stages; ++rank) {
      const Count counted = counted_messages(schedule, rank), most = most_messages(schedule, rank);
      EXPECT_LE(counted, most) << "rank " << rank;
      EXPECT_GE(counted, most - messages_on_their_way(schedule)) << "rank " << rank;
    }
  });
}

}  // namespace
}  // namespace cohort::test
