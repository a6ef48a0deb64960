#include "telemetry/device_peaks.hpp"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(DevicePeaks, AreThoseOfTheDeviceAndTheType) {
  EXPECT_EQ(datasheet_flops("NVIDIA H100 80GB HBM3", "bf16"), 989.4e12);
  EXPECT_EQ(datasheet_flops("NVIDIA H100 PCIe", "fp16"), 756.5e12);
  EXPECT_EQ(datasheet_flops("NVIDIA H200", "tf32"), 494.7e12);
  EXPECT_EQ(datasheet_flops("NVIDIA A100-SXM4-40GB", "fp32"), 19.5e12);
  EXPECT_EQ(datasheet_flops("NVIDIA L4", "bf16"), 121e12);
  EXPECT_EQ(datasheet_flops("NVIDIA L40S", "bf16"), 362e12) << "no L4";
  EXPECT_EQ(datasheet_flops("NVIDIA H200", "fp8"), 1978.9e12);
  EXPECT_EQ(datasheet_flops("NVIDIA A100-SXM4-80GB", "fp8"), std::nullopt) << "has no such units";
  EXPECT_EQ(utilisation_policy("fp8"), "bf16");
  EXPECT_EQ(utilisation_policy("tf32"), "tf32");
}

TEST(DevicePeaks, AreUnknownRatherThanGuessed) {
  EXPECT_EQ(datasheet_flops("NVIDIA L400", "bf16"), std::nullopt);
  EXPECT_EQ(datasheet_flops("AMD EPYC 9654", "fp32"), std::nullopt);
  EXPECT_EQ(datasheet_flops("Tesla T4", "tf32"), std::nullopt) << "has no such units";
  EXPECT_EQ(datasheet_flops("Tesla T4", "bf16"), std::nullopt) << "nor these";
  EXPECT_EQ(datasheet_flops("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "bf16"), std::nullopt) << "a part of a card";
  EXPECT_EQ(datasheet_flops("NVIDIA GeForce RTX 4090 Laptop GPU", "bf16"), std::nullopt);
}

}  // namespace
}  // namespace cohort
