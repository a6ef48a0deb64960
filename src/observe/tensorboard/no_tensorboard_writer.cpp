#include "base/error.hpp"
#include "observe/tensorboard/tensorboard_writer.hpp"

namespace cohort {

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& /*folder*/, Count /*first_step*/, double /*time*/) {
  fail(ExitCode::usage,
       "observe.tensorboard = true, but this cohort was built without protobuf: install it (on Debian: apt install "
       "libprotobuf-dev protobuf-compiler) and build Cohort again, or leave the key out");
}

void TensorBoardWriter::write(const TensorBoardStep& /*step*/) {}

}  // namespace cohort
