#include "comm/trace.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace cohort {

void CommTrace::attach(Communicator& comm) {
  comm.observe([table = table_](const CommEvent& event) {
    Totals& totals = (*table)[{*event.group, event.operation}];
    totals.calls += 1;
    totals.elements += event.elements;
    totals.bytes += event.bytes;
    totals.ranks = event.ranks;
  });
}

CommTrace::Totals CommTrace::totals(const std::string& group, const std::string& operation) const {
  const auto entry = table_->find({group, operation});
  return entry == table_->end() ? Totals{} : entry->second;
}

CommTrace::Totals CommTrace::sum() const {
  Totals sum;
  for (const auto& [key, totals] : *table_) {
    sum.calls += totals.calls;
    sum.elements += totals.elements;
    sum.bytes += totals.bytes;
  }
  return sum;
}

std::string CommTrace::str() const {
  cohort::Table text({"group", "operation", "calls", "elements", "bytes"});
  for (const auto& [key, totals] : *table_) {
    text.add({key.first, key.second, fmt::to_string(totals.calls), fmt::to_string(totals.elements), human_bytes(totals.bytes)});
  }
  return text.str(2);
}

}  // namespace cohort
