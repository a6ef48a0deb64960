// Whose values are in a sum over ranks: each rank gives a digit of its own, and the digits of the sum are counted.
#pragma once

#include <string>

namespace cohort::labs {

/// What rank r gives: 8^r, so that a sum tells how often each of up to 8 ranks is in it. Such a sum is exact in fp32.
float digit_of(int rank);

/// What is wrong with a sum in which each rank's digit is to be once: "the value of rank 1 is missing, that of rank 2 is in it
/// twice"; empty if nothing is.
std::string wrong_contributions(double sum, int ranks);

}  // namespace cohort::labs
