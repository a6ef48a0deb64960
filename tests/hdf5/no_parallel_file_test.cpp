// An HDF5 without MPI says what it cannot do.
#include <gtest/gtest.h>

#include "hdf5/hdf5.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::hdf5 {
namespace {

TEST(NoParallelFile, IsRefusedWithTheReason) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(File::has_parallel());
  EXPECT_ERROR(File::create_parallel(folder / "x.h5", nullptr), ExitCode::config, "x.h5", "no MPI", "one rank");
  File file = File::create(folder / "y.h5");
  Dataset dataset = file.create_dataset("x", Element::i32, std::vector<Count>{1});
  EXPECT_ERROR(dataset.write_range_collectively(0, 0, nullptr, Element::i32, 1), ExitCode::internal, "serial file");
}

}  // namespace
}  // namespace cohort::hdf5
